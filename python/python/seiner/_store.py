"""The store: the engine in this process, on one directory."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from . import _listing, _seiner
from ._intake import numbers, record_batches
from ._listing import Listing, listing
from ._moments import Duration, Moment, duration, moment
from ._receipt import Receipt
from ._result import Result
from ._retention import Class, Policy, share_of_disk
from ._sizes import Size, byte_count
from .errors import Invalid, Refused

Durability: TypeAlias = Literal["interval", "sync", "memory"]


class Source(NamedTuple):
    """A measurement with its tags, and its number in this store."""

    number: int
    measurement: str
    tags: dict[str, str]


def open(
    path: str | os.PathLike[str],
    *,
    memory: Size = "256 MiB",
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
    """Opens the store in a directory, which is created where it is missing.

    One store at a time can have a directory; a server is one, too.

    All settings but `memory`, `durability`, `interval_ms` and `idle_seal` are rules, which are stored with the
    data: a rule that is ``None`` is as it is stored, and has its default in a new store. A rule that is given
    takes the place of the stored one, unless data would go sooner for it: then nothing is opened.

    Args:
        path: The directory.
        memory: The memory that the store may take: buffers, dictionary, index and caches.
        durability: When rows survive what. ``"sync"``: when an append returns, they survive a
            power cut. ``"interval"``: a crash loses at most the last `interval_ms`, and what came
            during the flush that it interrupted. ``"memory"``: no journal; a crash loses all that
            is not in a sealed segment.
        interval_ms: How often the journal is synced, in ms.
        block_bytes: What a source's buffer holds before it is compressed: more compresses better,
            less needs less memory a source. By default 4 KiB.
        segment_bytes: The size of a segment file; by default 64 MiB, or a 512th of `disk` if that
            is less.
        journal_bytes: The journal kept at most; it bounds how long a start after a crash takes.
            By default 128 MiB, or a 32nd of `disk` if that is less.
        idle_seal: A source that was silent for so many seconds is written out.
        disk: What the directory may take, everything in it included; ``"all"``, the default, is as much as there
            is. Near it the store merges, slows appends, and then sheds or refuses as `classes` say.
        leave_free: What is left free on the file system, whoever else fills it.
        merge_from: The share of `disk` at which merging begins.
        policy: Which segments are merged.
        extra_writes: Bytes that may be written for each byte stored, over what merging for room
            writes anyway, to gather small blocks: later reads are faster, and the device wears.
        lanes: Logs written side by side, each with data that go at about the same time.
        classes: Which sources are kept how long; the first that means a source has it. ``[]`` keeps everything.
        apply_retention: Whether rules may take the place of the stored ones that let data go sooner.

    Raises:
        InUse: The directory is open elsewhere.
        Invalid: A setting makes no sense, or would let data go sooner than the stored rules; the text lists
            what would go.
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
        # These follow from the budget, and come with it.
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
            memory=byte_count("memory", memory),
            block_bytes=byte_count("block_bytes", 4096 if block_bytes is None else block_bytes),
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
    """A store, open for reading and writing; made by `open`.

    Any number of threads may use it at the same time: Python's lock is let go of while the engine
    works. A context manager: leaving it closes the store, which commits everything. So does the
    end of the program.
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
        """Makes everything durable and lets go of the directory. Once more does nothing."""
        self._finalizer.detach()
        self._native.close()

    @property
    def closed(self) -> bool:
        """Whether the store was closed."""
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
            tags: The tags; empty values count as absent.
            data: A dict of arrays, a pandas data frame (times in a column, or as index), a polars
                data frame, a pyarrow table or record batch, or anything with the Arrow PyCapsule
                interface. A stream is read piece by piece. Arrays of a dict may be NumPy's, masked
                or not, lists, Arrow arrays or pandas series.
            time: The column of times: ``datetime64``, an Arrow timestamp or date, or int64 ns
                since 1970. Times without a zone are UTC.
            fields: The columns that are fields; all others but `time` by default.
            strict: Whether refused rows raise `Refused`, or only stand in the receipt.

        Floats keep their 32 or 64 bits, and every bit of them; smaller integers become 64 bits
        wide, signed or unsigned. The first value decides a field's type in a source, and rows with
        another one are refused. Missing values (see the README) make no samples; a row without any
        value is left out. Of rows at the same time, each field keeps the last value.

        Raises:
            Refused: Some rows were not accepted; the others are stored.
            Invalid: The columns make no sense.
        """
        batches = record_batches(data, time)
        counts = self._native.append(measurement, _pairs(tags), batches, time, _names(fields))
        return _receipt(counts, strict)

    def append_table(
        self,
        measurement: str,
        data: Any,
        *,
        time: str = "time",
        tags: Sequence[str],
        fields: Sequence[str] | None = None,
        strict: bool = True,
    ) -> Receipt:
        """Appends rows of many sources, whose tags stand in columns.

        Args:
            measurement: The measurement of all rows.
            data: As for `append`.
            time: The column of times.
            tags: The columns that are tags: texts. Where one is missing or empty, the row's source
                does not have it.
            fields: The columns that are fields; all others by default.
            strict: Whether refused rows raise `Refused`, or only stand in the receipt.

        Raises:
            Refused, Invalid: As for `append`.
        """
        batches = record_batches(data, time)
        counts = self._native.append_table(measurement, batches, time, list(_names(tags) or []), _names(fields))
        return _receipt(counts, strict)

    def source(self, measurement: str, tags: Mapping[str, str] | None = None) -> int:
        """The number of a source, for `samples`; it is registered where it is new."""
        return self._native.source(measurement, _pairs(tags))

    def samples(self, field: str, sources: Any, times: Any, values: Any, *, strict: bool = True) -> Receipt:
        """Appends one float each to many sources: the fastest way for one field.

        Args:
            field: The field.
            sources: Numbers from `source`, an array of integers; or one number, for all values.
            times: As many times: ``datetime64``, or int64 ns since 1970.
            values: As many float64.
            strict: Whether refused rows raise `Refused`, or only stand in the receipt.
        """
        times, values = numbers("times", times), numbers("values", values)
        if np.ndim(sources) == 0:
            sources = np.full(len(values), sources)
        return _receipt(self._native.samples(field, numbers("sources", sources), times, values), strict)

    def write_lines(self, lines: str | bytes, *, precision: str = "ns") -> Receipt:
        """Appends line protocol: ``cpu,host=a usage=12.5 1700000000000000000``.

        Args:
            lines: The lines. One without a time gets the time of the call.
            precision: The unit of the times: ns, us, ms, s, m or h.

        Lines that cannot be accepted stand in the receipt, with their numbers from 1; none raise.
        """
        text = lines.encode() if isinstance(lines, str) else bytes(lines)
        return Receipt(*self._native.write_lines(text, precision))

    # ---- asking

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
    ) -> Result:
        """Samples, or aggregates, of the series that a selector means.

        Args:
            select: Such as ``cpu{host="a"}``; beside ``=`` there are ``!=``, ``=~`` and ``!~``
                (regular expressions over whole values) and ``^=`` (prefix). ``{}`` is everything.
            start: The first time, included; open by default.
            end: The last time, included; open by default.
            fields: The fields; all by default.
            step: Cut the time into steps of this length, aligned to 1970, and answer aggregates
                of each that holds samples.
            aggregates: Of count, sum, mean, min, max, first, last, first_time, last_time; mean by
                default where there is a step. Without a step, they are those of the whole interval.
                All are float64 but the count (uint64), the times, and min, max, first, last and sum of
                integers, which are exact: int64 or uint64, float64 for a series of which a sum is
                beyond that. Of texts there are only the count and the times.
            tag_columns: In the long form, a column for each of these tags, instead of all tags as
                one text; True is every tag of the selected sources.
        """
        if aggregates is None and step is not None:
            aggregates = ("mean",)
        if tag_columns is True:
            tag_columns = self.tags(select)
        answer = self._native.query(
            select,
            moment(start),
            moment(end),
            _names(fields),
            duration(step),
            _names(aggregates),
            None if tag_columns is False else _names(tag_columns),
        )
        return Result(answer)

    def measurements(self) -> list[str]:
        """All measurements, sorted."""
        return self._native.measurements()

    def tags(self, select: str = "{}") -> list[str]:
        """The names of the tags that the selected sources have, sorted."""
        return self._native.tags(select)

    def values(self, tag: str, select: str = "{}", *, limit: int | None = None) -> Listing[str]:
        """The values of a tag among the selected sources, sorted.

        Args:
            tag: The tag.
            select: The sources, as for `query`.
            limit: At most so many; the attribute `truncated` of the list says whether there are more. By default a
                million; if there are more, there is a warning, too.
        """
        most = _listing.DEFAULT_LIMIT if limit is None else limit
        return listing(*self._native.values(tag, select, most), limit)

    def fields(self, select: str = "{}") -> list[tuple[str, str]]:
        """The fields of the selected sources with their types, sorted."""
        return self._native.fields(select)

    def sources(self, select: str = "{}", *, limit: int | None = None) -> Listing[Source]:
        """The selected sources in the order of their numbers.

        Args:
            select: The sources, as for `query`.
            limit: As for `values`.
        """
        most = _listing.DEFAULT_LIMIT if limit is None else limit
        found, truncated = self._native.sources(select, most)
        return listing((Source(number, name, dict(tags)) for number, name, tags in found), truncated, limit)

    def status(self) -> dict[str, Any]:
        """Counts, memory, what a crash now would lose, journal and segments, by name."""
        return self._native.status()

    def delete(self, select: str, start: Moment | None = None, end: Moment | None = None) -> int:
        """Deletes what sources measured in an interval; answers how many sources were meant.

        Args:
            select: The sources, as for `query`; ``{}`` is all.
            start: The first time, included; open by default.
            end: The last time, included; open by default.

        Nobody sees the samples any more from then on, after any crash; those of the same times that
        are appended later are new, and stay. The room comes back as segments are dropped and merged.
        """
        return self._native.delete(select, moment(start), moment(end))

    def log(self) -> dict[str, Any]:
        """How full the store is, in bytes and shares, and its lanes, segments and classes."""
        return self._native.log()

    def decisions(self) -> list[dict[str, Any]]:
        """What was dropped and merged lately and why, the latest last."""
        return self._native.decisions()

    def commit(self) -> None:
        """Returns when everything accepted so far is on disk."""
        self._native.commit()

    def settle(self) -> None:
        """Seals everything into segments and lets the journal go: as small as it gets."""
        self._native.settle()


def _pairs(tags: Mapping[str, str] | None) -> list[tuple[str, str]]:
    pairs = list((tags or {}).items())
    for name, value in pairs:
        if not isinstance(name, str) or not isinstance(value, str):
            raise Invalid(f"tag {name!r} is {value!r}; names and values of tags are texts")
    return pairs


def _names(names: str | Sequence[str] | None) -> list[str] | None:
    if names is None:
        return None
    return [names] if isinstance(names, str) else list(names)


def _receipt(counts: tuple[int, int, list[tuple[int, str]], int], strict: bool) -> Receipt:
    receipt = Receipt(*counts)
    if strict and receipt.refused_total:
        raise Refused(receipt)
    return receipt
