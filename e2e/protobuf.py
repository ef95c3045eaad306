"""Messages of remote write and remote read, encoded by hand, and Snappy without compression."""

import struct


def varint(number):
    encoded = b""
    while number >= 0x80:
        encoded += bytes([number & 0x7F | 0x80])
        number >>= 7
    return encoded + bytes([number])


def message(tag, content):
    return varint(tag << 3 | 2) + varint(len(content)) + content


def literal(content):
    """Snappy without compression, up to 64 KiB."""
    return varint(len(content)) + bytes([61 << 2]) + struct.pack("<H", len(content) - 1) + content


def series(labels, samples):
    """Returns a series of remote write 1. `labels` is sorted; `samples` are times in ms and values."""
    encoded = b"".join(
        message(1, message(1, name.encode()) + message(2, value.encode())) for name, value in labels.items()
    )
    for ms, value in samples:
        encoded += message(2, b"\x09" + struct.pack("<d", value) + b"\x10" + varint(ms))
    return message(1, encoded)
