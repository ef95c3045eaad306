"""Client of the network block device that reports errors and can have several requests in flight."""

import socket
import struct

READ, WRITE, DISCONNECT, FLUSH, TRIM = range(5)
BLOCK = 4096


class Rejected(Exception):
    """The server answered with an error."""


class Client:
    """A connection to an export on a Unix socket."""

    def __init__(self, path, name="array"):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(str(path))
        magic, option, _ = struct.unpack(">QQH", self._take(18))
        assert magic == 0x4E42444D41474943 and option == 0x49484156454F5054
        # Fixed newstyle, no zeroes after the size.
        self.socket.sendall(struct.pack(">I", 3))
        self.socket.sendall(struct.pack(">QII", option, 1, len(name)) + name.encode())
        self.size, self.flags = struct.unpack(">QH", self._take(10))
        self.next = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def _take(self, count):
        taken = b""
        while len(taken) < count:
            more = self.socket.recv(count - len(taken))
            if not more:
                raise ConnectionError("the server has gone")
            taken += more
        return taken

    def send(self, command, offset=0, length=0, data=b""):
        """Sends a request. Returns its number."""
        self.next += 1
        head = struct.pack(">IHHQQI", 0x25609513, 0, command, self.next, offset, length)
        self.socket.sendall(head + data)
        return self.next

    def reply(self):
        """Waits for a reply to a request other than a read. Returns the number of the request, and its error or 0."""
        magic, error, number = struct.unpack(">IIQ", self._take(16))
        assert magic == 0x67446698
        return number, error

    def ask(self, command, offset=0, length=0, data=b""):
        """Sends a request and waits for the reply."""
        self.send(command, offset, length, data)
        _, error = self.reply()
        if error:
            raise Rejected(error)
        return self._take(length) if command == READ else b""

    def flush(self):
        """Makes acknowledged writes durable."""
        self.ask(FLUSH)
