//! Settings of the ports for protocols without answers.

use super::setting::Setting;
use super::text::address_or_off;

/// Settings, in the order of display.
pub static SETTINGS: [Setting; 4] = [
    Setting {
        name: "line_udp_listen",
        default: "off",
        form: "ADDRESS:PORT|off",
        help: "Address of a port for line protocol over UDP, with times in ns. A datagram contains whole lines. Nothing is \
               acknowledged, and the kernel drops datagrams while its buffer is full: `line_tcp` is safer.",
        assign: |settings, text| {
            address_or_off(text).map(|address| settings.text_ports.line_udp = address)
        },
    },
    Setting {
        name: "graphite_listen",
        default: "off",
        form: "ADDRESS:PORT|off",
        help: "Address of a port for the plaintext protocol of Graphite, over TCP and UDP; 127.0.0.1:2003 is usual. \
               docs/graphite.md has examples.",
        assign: |settings, text| {
            address_or_off(text).map(|address| settings.text_ports.graphite = address)
        },
    },
    Setting {
        name: "graphite_pickle_listen",
        default: "off",
        form: "ADDRESS:PORT|off",
        help: "Address of a port for the pickle protocol of Graphite over TCP; 127.0.0.1:2004 is usual. Pickles may contain \
               lists, tuples, texts and numbers only.",
        assign: |settings, text| {
            address_or_off(text).map(|address| settings.text_ports.graphite_pickle = address)
        },
    },
    Setting {
        name: "opentsdb_listen",
        default: "off",
        form: "ADDRESS:PORT|off",
        help: "Address of a port for lines `put …` of OpenTSDB over TCP; 127.0.0.1:4242 is usual. Nothing is acknowledged: \
               JSON at `/api/put` of the server is safer. docs/opentsdb.md has examples.",
        assign: |settings, text| {
            address_or_off(text).map(|address| settings.text_ports.opentsdb = address)
        },
    },
];
