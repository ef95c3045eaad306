"""Seiner, embedded: a sensor-data store in this process, on one directory.

    import seiner

    with seiner.open("data") as store:
        store.append("cpu", {"host": "a"}, {"time": times, "usage": values})
        frame = store.query('cpu{host="a"}', "-1h", step="1m").pandas()

See `open`, `Store` and `Result`. Every error is a `SeinerError`.
"""

from __future__ import annotations

from ._client import Client, Unreachable, Untrusted, Written
from ._listing import Listing
from ._moments import Duration, Moment
from ._range import Range
from ._receipt import Receipt
from ._result import Result, Series, SeriesKey
from ._retention import Class
from ._store import Source, Store, open
from ._table import Table
from .errors import Closed, Damaged, DiskError, DiskFull, InUse, Invalid, Poisoned, Refused, Rejected, SeinerError

__all__ = [
    "Class",
    "Client",
    "Closed",
    "Damaged",
    "DiskError",
    "DiskFull",
    "Duration",
    "InUse",
    "Invalid",
    "Listing",
    "Moment",
    "Poisoned",
    "Range",
    "Receipt",
    "Refused",
    "Rejected",
    "Result",
    "SeinerError",
    "Series",
    "SeriesKey",
    "Source",
    "Store",
    "Table",
    "Unreachable",
    "Untrusted",
    "Written",
    "open",
]
