"""The store: the engine in this process, on one directory."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, NamedTuple, TypeAlias, overload

import numpy as np

from . import _listing, _seiner
from ._arguments import is_wide, name_list
from ._columns import numbers, record_batches
from ._listing import Listing, listing
from ._moments import Duration, Moment, duration, moment
from ._range import Range
from ._receipt import Receipt
from ._result import Result
from ._retention import Class, Policy, share_of_disk
from ._sizes import Size, byte_count
from ._table import Table
from .errors import Invalid, Rejected

Durability: TypeAlias = Literal["interval", "sync", "memory"]


class Source(NamedTuple):
    """A measurement with its tags, and its number in this store."""

    number: int
    measurement: str
    tags: dict[str, str]


def open(
    path: str | os.PathLike[str],
    *,
    memory: Size | Literal["auto"] = "auto",
    durability: Durability = "interval",
    interval_ms: int = 100,
    block_bytes: Size | None = None,
    segment_bytes: Size | None = None,
    journal_bytes: Size | None = None,
    idle_seal: float = 600.0,
    disk: Size | Literal["all"] | None = None,
    leave_free: Size | None = None,
    merge_from: float | None = None,
    policy: Policy | None = None,
    extra_writes: float | None = None,
    lanes: int | None = None,
    classes: Sequence[Class] | None = None,
    apply_retention: bool = False,
) -> Store:
    """Opens the store in a directory, and creates the directory if it is missing.

    Only one store can have a directory open at a time. A server counts as a store.

    All settings except `memory`, `durability`, `interval_ms` and `idle_seal` are rules, which are stored with
    the data. A rule of ``None`` keeps its stored value, or gets its default in a new store. A given rule replaces
    the stored one. If data would expire sooner under the given rules, the store is not opened.

    Args:
        path: The directory.
        memory: Maximum memory of the store: buffers, dictionary, index and caches. ``"auto"``: a quarter of the
            machine's memory, or of the control group's limit if that is less, from 128 MiB to 8 GiB.
        durability: Rows that survive a crash or a power cut. ``"sync"``: all rows of appends that have returned.
            ``"interval"``: all but those of the last `interval_ms`, and of the flush that the
            crash interrupted. ``"memory"``: only rows in sealed segments; there is no journal.
        interval_ms: Interval between syncs of the journal, in ms.
        block_bytes: Size of a source's buffer before compression. Larger buffers compress better,
            smaller ones need less memory per source. By default 8 KiB.
        segment_bytes: Size of a segment file. By default 64 MiB, or a 512th of `disk` if that
            is less.
        journal_bytes: Maximum size of the journal. It bounds the time of a start after a crash.
            By default 128 MiB, or a 32nd of `disk` if that is less.
        idle_seal: Idle time in seconds after which the buffer of a source is written to a segment.
        disk: Maximum size of the directory, all files included; ``"all"`` (the default) for no limit. Near the
            limit the store merges, slows appends, and then sheds data or rejects rows, as `classes` specify.
        leave_free: Space to leave free on the file system, whatever other programs use.
        merge_from: Share of `disk` at which merging begins.
        policy: Policy that chooses the segments to merge.
        extra_writes: Bytes that may be written per byte stored to coalesce small blocks, in addition to
            the merges that free space. More makes later reads faster and wears the device.
        lanes: Number of logs written in parallel, each for data that expire at about the same time.
        classes: Retention classes. The first class that matches a source applies. ``[]`` keeps everything.
        apply_retention: True if the given rules may expire data sooner than the stored rules.

    Raises:
        InUse: The directory is open elsewhere.
        Invalid: A setting is not valid, or would expire data sooner than the stored rules; the text lists
            these data.
        Damaged, DiskError: The directory cannot be read.
    """
    budget = None if disk is None or disk == "all" else byte_count("disk", disk)
    rules = {
        "disk": disk,
        "leave_free": leave_free,
        "merge_from": merge_from,
        "policy": policy,
        "extra_writes": extra_writes,
        "lanes": lanes,
        "block_bytes": block_bytes,
        # The defaults of these depend on the budget.
        "segment_bytes": disk if segment_bytes is None else segment_bytes,
        "journal_bytes": disk if journal_bytes is None else journal_bytes,
        "class": classes,
    }
    if segment_bytes is None:
        segment_bytes = share_of_disk(budget, 512, 256 << 10, 64 << 20)
    if journal_bytes is None:
        journal_bytes = share_of_disk(budget, 32, 1 << 20, 128 << 20)
    return Store(
        _seiner.Store(
            os.fspath(path),
            durability=durability,
            interval_ms=interval_ms,
            memory=None if memory == "auto" else byte_count("memory", memory),
            block_bytes=byte_count("block_bytes", 8192 if block_bytes is None else block_bytes),
            segment_bytes=byte_count("segment_bytes", segment_bytes),
            journal_bytes=byte_count("journal_bytes", journal_bytes),
            idle_seal_s=idle_seal,
            disk=budget,
            leave_free=byte_count("leave_free", 0 if leave_free is None else leave_free),
            merge_from=0.95 if merge_from is None else merge_from,
            policy="patient" if policy is None else policy,
            extra_writes=0.2 if extra_writes is None else extra_writes,
            lanes=32 if lanes is None else lanes,
            classes=[one._native() for one in classes or ()],
            given=[name for name, value in rules.items() if value is not None],
            apply_retention=apply_retention,
        ),
        os.fspath(path),
    )


class Store:
    """A store, open for reading and writing. Created by `open`.

    Any number of threads may use a store at the same time. Python's lock is released while the engine
    works. A store is a context manager. The end of the context closes the store, which commits everything.
    The end of the program also closes the store.
    """

    def __init__(self, native: _seiner.Store, path: str) -> None:
        self._native = native
        self._path = path
        self._finalizer = weakref.finalize(self, native.close)

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<seiner.Store in {self._path!r}{', closed' if self.closed else ''}>"

    def close(self) -> None:
        """Makes everything durable and closes the directory. A second call has no effect."""
        self._finalizer.detach()
        self._native.close()

    @property
    def closed(self) -> bool:
        """True if the store is closed."""
        return self._native.closed

    # ---- appending

    def append(
        self,
        measurement: str,
        tags: Mapping[str, str] | None,
        data: Any,
        *,
        time: str = "time",
        fields: Sequence[str] | None = None,
        strict: bool = True,
    ) -> Receipt:
        """Appends rows of one source.

        Args:
            measurement: The measurement.
            tags: The tags. Empty values count as absent.
            data: A dict of arrays, a pandas data frame (times in a column, or as index), a polars
                data frame, a pyarrow table or record batch, or anything with the Arrow PyCapsule
                interface. A stream is read in pieces. Arrays of a dict may be NumPy arrays (masked
                or not), lists, Arrow arrays or pandas series.
            time: Name of the time column. Its type is ``datetime64``, an Arrow timestamp or date, or int64
                in ns since 1970. Times without a zone are UTC.
            fields: Names of the field columns; by default all except `time`.
            strict: True if rejected rows raise `Rejected`. Otherwise only the receipt lists them.

        Floats of 32 or 64 bits are stored bit by bit. Smaller integers are widened to 64 bits, signed or
        unsigned. The first value fixes the type of a field in a source, and rows with another type are
        rejected. Missing values (see the README) create no samples, and a row without values is omitted.
        Of several rows at the same time, each field keeps the last value.

        Raises:
            Rejected: Some rows were rejected; the others are stored.
            Invalid: The columns are not valid.
        """
        batches = record_batches(data, time)
        counts = self._native.append(measurement, _pairs(tags), batches, time, name_list(fields))
        return _receipt(counts, strict)

    def append_table(
        self,
        measurement: str | None,
        data: Any,
        *,
        time: str = "time",
        tags: Sequence[str] | None = None,
        fields: Sequence[str] | None = None,
        strict: bool = True,
    ) -> Receipt:
        """Appends rows of many sources, whose tags are in columns.

        Args:
            measurement: The measurement of all rows, or None if the column ``measurement`` contains it.
            data: As for `append`, or a `Table`.
            time: Name of the time column.
            tags: Names of the tag columns, which contain texts. A missing or empty value means that the
                row's source does not have the tag. By default all columns that are dictionaries of texts: categories
                of pandas, ``Categorical`` and ``Enum`` of polars, and the tags of a `Table`.
            fields: Names of the field columns; by default all others.
            strict: True if rejected rows raise `Rejected`. Otherwise only the receipt lists them.

        Raises:
            Rejected, Invalid: As for `append`.
        """
        batches = record_batches(data, time)
        counts = self._native.append_table(measurement, batches, time, name_list(tags), name_list(fields))
        return _receipt(counts, strict)

    def source(self, measurement: str, tags: Mapping[str, str] | None = None) -> int:
        """Returns the number of a source, for `samples`. Registers the source if it is new."""
        return self._native.source(measurement, _pairs(tags))

    def samples(self, field: str, sources: Any, times: Any, values: Any, *, strict: bool = True) -> Receipt:
        """Appends one float each to many sources. This is the fastest method for a single field.

        Args:
            field: Name of the field.
            sources: Numbers from `source`: an array of integers, or one number for all values.
            times: An array of equal length: ``datetime64``, or int64 in ns since 1970.
            values: An array of float64 of equal length.
            strict: True if rejected rows raise `Rejected`. Otherwise only the receipt lists them.
        """
        times, values = numbers("times", times), numbers("values", values)
        if np.ndim(sources) == 0:
            sources = np.full(len(values), sources)
        return _receipt(self._native.samples(field, numbers("sources", sources), times, values), strict)

    def write_lines(self, lines: str | bytes, *, precision: str = "ns") -> Receipt:
        """Appends line protocol: ``cpu,host=a usage=12.5 1700000000000000000``.

        Args:
            lines: The lines. A line without a time gets the time of the call.
            precision: Unit of the times: ns, us, ms, s, m or h.

        Rejected lines are listed in the receipt by their numbers, from 1. They raise no exception.
        """
        text = lines.encode() if isinstance(lines, str) else bytes(lines)
        return Receipt(*self._native.write_lines(text, precision))

    # ---- querying

    @overload
    def query(
        self,
        select: str,
        start: Moment | None = None,
        end: Moment | None = None,
        *,
        fields: str | Sequence[str] | None = None,
        step: Duration | None = None,
        aggregates: str | Sequence[str] | None = None,
        tag_columns: bool | Sequence[str] = False,
        shape: Literal["long"] = "long",
    ) -> Result: ...

    @overload
    def query(
        self,
        select: str,
        start: Moment | None = None,
        end: Moment | None = None,
        *,
        fields: str | Sequence[str] | None = None,
        shape: Literal["wide"],
    ) -> Table: ...

    def query(
        self,
        select: str,
        start: Moment | None = None,
        end: Moment | None = None,
        *,
        fields: str | Sequence[str] | None = None,
        step: Duration | None = None,
        aggregates: str | Sequence[str] | None = None,
        tag_columns: bool | Sequence[str] = False,
        shape: Literal["long", "wide"] = "long",
    ) -> Result | Table:
        """Returns samples, or aggregates, of the series that a selector matches.

        Args:
            select: A selector such as ``cpu{host="a"}``. Besides ``=`` there are ``!=``, ``=~`` and ``!~``
                (regular expressions over whole values) and ``^=`` (prefix). ``{}`` matches everything.
            start: First time, included; unbounded by default.
            end: Last time, included; unbounded by default.
            fields: Names of the fields; all by default.
            step: Length of the steps, aligned to 1970, for which aggregates are returned. Steps
                without samples are omitted.
            aggregates: Any of count, sum, mean, min, max, first, last, first_time, last_time. With a step,
                the default is mean. Without a step, aggregates cover the whole interval. All are
                float64, except the count (uint64), the times, and min, max, first, last and sum of
                integers. These are exact (int64 or uint64); a series with a sum beyond that range
                gets float64. Texts have only the count and the times.
            tag_columns: Tags that get a column each in the long form, instead of one text with all
                tags; True for every tag of the selected sources.
            shape: ``"wide"`` returns the rows as they were written, as a `Table` with one column for each
                tag and field, whatever the types of the fields.
        """
        if is_wide(shape, step, aggregates, tag_columns):
            return Table(self._native.rows(select, moment(start), moment(end), name_list(fields)))
        if aggregates is None and step is not None:
            aggregates = ("mean",)
        answer = self._native.query(
            select,
            moment(start),
            moment(end),
            name_list(fields),
            duration(step),
            name_list(aggregates),
            self._tag_columns(select, tag_columns),
        )
        return Result(answer)

    def _tag_columns(self, select: str, wanted: bool | Sequence[str]) -> list[str] | None:
        """Returns the names of the tags that get a column each; None for the long form."""
        if wanted is True:
            wanted = self.tags(select)
        return None if wanted is False else name_list(wanted)

    def latest(
        self,
        select: str,
        start: Moment | None = None,
        end: Moment | None = None,
        *,
        fields: str | Sequence[str] | None = None,
        tag_columns: bool | Sequence[str] = False,
    ) -> Result:
        """Returns the latest sample of each series that a selector matches, with its own time and type.

        Numbers come from the aggregates of blocks, without a scan of the samples.

        Args:
            select: A selector, as for :meth:`query`.
            start: First time, included; series whose latest sample is older are omitted. Unbounded by default.
            end: Last time, included; unbounded by default.
            fields: Names of the fields; all by default.
            tag_columns: Tags that get a column each, as for :meth:`query`.
        """
        answer = self._native.latest(
            select,
            moment(start),
            moment(end),
            name_list(fields),
            self._tag_columns(select, tag_columns),
        )
        return Result(answer)

    def range(
        self,
        select: str = "{}",
        start: Moment | None = None,
        end: Moment | None = None,
        *,
        fields: str | Sequence[str] | None = None,
    ) -> Range | None:
        """Returns the first and the last time of the selected samples, or None if there are none.

        The times come from the aggregates of blocks. Samples are decoded only where a block overlaps a limit of the
        interval, a delete or another block.

        Args:
            select: A selector, as for :meth:`query`; by default all sources.
            start: First time, included; unbounded by default.
            end: Last time, included; unbounded by default.
            fields: Names of the fields; all by default.
        """
        found = self._native.range(select, moment(start), moment(end), name_list(fields))
        return None if found is None else Range(*found)

    def measurements(self) -> list[str]:
        """Returns all measurements, sorted."""
        return self._native.measurements()

    def tags(self, select: str = "{}") -> list[str]:
        """Returns the names of the tags of the selected sources, sorted."""
        return self._native.tags(select)

    def values(self, tag: str, select: str = "{}", *, limit: int | None = None) -> Listing[str]:
        """Returns the values of a tag among the selected sources, sorted.

        Args:
            tag: The tag.
            select: The sources, as for `query`.
            limit: Maximum number of values. The attribute `truncated` of the list is true if there are more. The default
                is a million; if there are more, the call also warns.
        """
        most = _listing.DEFAULT_LIMIT if limit is None else limit
        return listing(*self._native.values(tag, select, most), limit)

    def fields(self, select: str = "{}") -> list[tuple[str, str]]:
        """Returns the fields of the selected sources with their types, sorted."""
        return self._native.fields(select)

    def sources(self, select: str = "{}", *, limit: int | None = None) -> Listing[Source]:
        """Returns the selected sources in the order of their numbers.

        Args:
            select: The sources, as for `query`.
            limit: As for `values`.
        """
        most = _listing.DEFAULT_LIMIT if limit is None else limit
        found, truncated = self._native.sources(select, most)
        return listing((Source(number, name, dict(tags)) for number, name, tags in found), truncated, limit)

    def status(self) -> dict[str, Any]:
        """Returns counts, memory, rows that a crash now would lose, journal and segments, by name."""
        return self._native.status()

    def delete(self, select: str, start: Moment | None = None, end: Moment | None = None) -> int:
        """Deletes the samples of sources in an interval. Returns the number of sources matched.

        Args:
            select: A selector, as for `query`; ``{}`` matches all sources.
            start: First time, included; unbounded by default.
            end: Last time, included; unbounded by default.

        The samples are hidden from then on, also after a crash. Samples of the same times that are appended
        later are new and not affected. The space is freed when segments are dropped and merged.
        """
        return self._native.delete(select, moment(start), moment(end))

    def log(self) -> dict[str, Any]:
        """Returns the fill level of the store in bytes and shares, and its lanes, segments and classes."""
        return self._native.log()

    def decisions(self) -> list[dict[str, Any]]:
        """Returns the latest drops and merges with their reasons, in order of time."""
        return self._native.decisions()

    def commit(self) -> None:
        """Waits until everything accepted so far is on disk."""
        self._native.commit()

    def flush(self) -> None:
        """Seals all buffers into segments and empties the journal, to minimise disk usage."""
        self._native.flush()

    def settle(self) -> None:
        """Deprecated name of `flush`."""
        self.flush()


def _pairs(tags: Mapping[str, str] | None) -> list[tuple[str, str]]:
    pairs = list((tags or {}).items())
    for name, value in pairs:
        if not isinstance(name, str) or not isinstance(value, str):
            raise Invalid(f"tag {name!r} is {value!r}; names and values of tags are texts")
    return pairs


def _receipt(counts: tuple[int, int, list[tuple[int, str]], int], strict: bool) -> Receipt:
    receipt = Receipt(*counts)
    if strict and receipt.rejected_total:
        raise Rejected(receipt)
    return receipt
