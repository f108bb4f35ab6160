"""Dates, datetimes, times, and durations of pydantic."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Annotated, Any

import annotated_types as at
import pydantic
from pydantic import BaseModel, ConfigDict, Field, Strict

from type_catalogue.entry import entry

__all__ = ["ENTRIES"]

UTC = UTC


def bounded(base: Any, **bounds: Any) -> Any:
    """Return a type with bounds."""
    return Annotated[base, Field(**bounds)]


class Milliseconds(BaseModel):
    """Numbers of a model are milliseconds."""

    model_config = ConfigDict(val_temporal_unit="milliseconds")
    at: datetime
    on: date


class FloatDurations(BaseModel):
    """Durations that are written as numbers."""

    model_config = ConfigDict(ser_json_timedelta="float")
    for_: timedelta = Field(alias="for")


class StrictTimes(BaseModel):
    """Times of a strict model."""

    model_config = ConfigDict(strict=True)
    on: date
    at: datetime
    when: time
    for_: timedelta


class Stay(BaseModel):
    """A model of the dates of a stay."""

    arrival: bounded(date, ge=date(2024, 1, 1))  # type: ignore[valid-type]
    nights: bounded(timedelta, ge=timedelta(days=1), le=timedelta(days=30))  # type: ignore[valid-type]
    booked: datetime | None = None


ENTRIES = (
    entry("date", date, ['"2024-02-29"', '"0001-01-01"', '"9999-12-31"'], ['"2023-02-29"', '"0000-01-01"']),
    entry("date, ge", bounded(date, ge=date(2024, 1, 1)), ['"2024-01-01"', '"2030-05-06"'], ['"2023-12-31"']),
    entry("date, gt", bounded(date, gt=date(2024, 2, 28)), ['"2024-02-29"'], ['"2024-02-28"']),
    entry("date, le", bounded(date, le=date(1999, 12, 31)), ['"1999-12-31"'], ['"2000-01-01"']),
    entry("date, lt", bounded(date, lt=date(2000, 1, 1)), ['"1999-12-31"'], ['"2000-01-01"']),
    entry("date, interval", bounded(date, ge=date(2024, 2, 28), lt=date(2024, 3, 2)), ['"2024-02-29"'], ['"2024-03-02"']),
    entry(
        "date, annotated_types.Interval",
        Annotated[date, at.Interval(gt=date(2020, 1, 1), le=date(2021, 1, 1))],
        ['"2020-06-01"'],
        ['"2020-01-01"'],
    ),
    entry("condate", pydantic.condate(ge=date(2000, 1, 1), le=date(2000, 12, 31)), ['"2000-06-01"'], ['"2001-01-01"']),
    entry("date, strict", Annotated[date, Strict()], ['"2024-01-02"'], ["0"]),
    entry("PastDate", pydantic.PastDate, ['"1999-01-01"'], ['"9999-01-01"']),
    entry("FutureDate", pydantic.FutureDate, ['"9000-01-01"'], ['"1999-01-01"']),
    entry(
        "datetime",
        datetime,
        ['"2024-01-02T03:04:05Z"', '"2024-01-02T03:04:05.123456+02:00"'],
        ['"2016-12-31T23:59:60Z"', '"2024-13-01T00:00:00"'],
    ),
    entry("datetime without offset", datetime, ['"2024-01-02T03:04:05"'], ['"a"']),
    entry(
        "AwareDatetime",
        pydantic.AwareDatetime,
        ['"2024-01-02T03:04:05Z"', '"2024-01-02T03:04:05-11:30"'],
        ['"2024-01-02T03:04:05"'],
    ),
    entry("NaiveDatetime", pydantic.NaiveDatetime, ['"2024-01-02T03:04:05"'], ['"2024-01-02T03:04:05Z"']),
    entry("PastDatetime", pydantic.PastDatetime, ['"1999-01-02T03:04:05Z"'], ['"9000-01-01T00:00:00Z"']),
    entry("FutureDatetime", pydantic.FutureDatetime, ['"9000-01-01T00:00:00Z"'], ['"1999-01-01T00:00:00Z"']),
    entry(
        "datetime, ge aware",
        bounded(datetime, ge=datetime(2024, 1, 1, tzinfo=UTC)),
        ['"2024-01-01T00:00:00Z"', '"2024-05-01T00:00:00+01:00"'],
        ['"2023-12-31T23:59:59Z"', '"2024-01-01T00:30:00+01:00"'],
    ),
    entry(
        "datetime, gt aware",
        bounded(datetime, gt=datetime(2024, 1, 1, tzinfo=UTC)),
        ['"2024-01-01T00:00:01Z"'],
        ['"2024-01-01T00:00:00Z"'],
    ),
    entry(
        "datetime, lt aware",
        bounded(datetime, lt=datetime(2024, 1, 1, tzinfo=UTC)),
        ['"2023-12-31T23:59:59Z"'],
        ['"2024-01-01T00:00:00Z"'],
    ),
    entry(
        "datetime, le with an offset",
        bounded(datetime, le=datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=2)))),
        ['"2023-12-31T22:00:00Z"'],
        ['"2023-12-31T23:00:00Z"'],
    ),
    entry("datetime, ge naive", bounded(datetime, ge=datetime(2024, 1, 1)), ['"2024-01-01T00:00:00"'], ['"2023-01-01T00:00:00"']),
    entry(
        "datetime, naive interval",
        bounded(datetime, ge=datetime(2024, 1, 1), lt=datetime(2024, 1, 1, 12, 30)),
        ['"2024-01-01T12:29:59"'],
        ['"2024-01-01T12:30:00"'],
    ),
    entry(
        "AwareDatetime, ge",
        bounded(pydantic.AwareDatetime, ge=datetime(2024, 1, 1, tzinfo=UTC)),
        ['"2024-01-01T00:00:00Z"'],
        ['"2024-01-01T00:00:00"'],
    ),
    entry(
        "NaiveDatetime, lt",
        bounded(pydantic.NaiveDatetime, lt=datetime(2024, 1, 1)),
        ['"2023-01-01T00:00:00"'],
        ['"2024-01-01T00:00:00"'],
    ),
    entry(
        "datetime, microsecond bound",
        bounded(datetime, gt=datetime(2024, 1, 1, 0, 0, 0, 500_000, tzinfo=UTC)),
        ['"2024-01-01T00:00:00.500001Z"'],
        ['"2024-01-01T00:00:00.5Z"'],
    ),
    entry("datetime, year 1 with an offset", pydantic.AwareDatetime, ['"0001-01-02T00:00:00Z"'], ['"0000-01-01T00:00:00Z"']),
    entry("time", time, ['"12:30:00"', '"23:59:59.999999"'], ['"24:00:00"', '"23:59:60"']),
    entry(
        "time, ge and lt",
        bounded(time, ge=time(9), lt=time(17, 30)),
        ['"09:00:00"', '"17:29:59"'],
        ['"08:59:59"', '"17:30:00"'],
    ),
    entry("time, gt", bounded(time, gt=time(9, 30)), ['"09:30:01"'], ['"09:30:00"']),
    entry("time, le", bounded(time, le=time(9, 30)), ['"09:30:00"'], ['"09:30:01"']),
    entry("time, aware bound", bounded(time, ge=time(9, tzinfo=UTC)), ['"10:00:00Z"'], ['"08:00:00Z"']),
    entry("timedelta", timedelta, ['"P1DT2H"', '"-P1D"', '"PT0.5S"'], ['"P1000000000D"', '"a"']),
    entry("timedelta, ge 0", bounded(timedelta, ge=timedelta(0)), ['"PT1H"', '"PT0S"'], ['"-PT1S"']),
    entry("timedelta, gt 0", bounded(timedelta, gt=timedelta(0)), ['"PT1H"'], ['"PT0S"']),
    entry(
        "timedelta, interval",
        bounded(timedelta, gt=timedelta(minutes=1), le=timedelta(days=1)),
        ['"PT2M"', '"P1D"'],
        ['"PT1M"', '"P1DT1S"'],
    ),
    entry("timedelta, lt negative", bounded(timedelta, lt=timedelta(days=-1)), ['"-P2D"'], ['"-P1D"']),
    entry("timedelta, strict", Annotated[timedelta, Strict()], ['"PT1H"'], ["1"]),
    entry(
        "milliseconds",
        Milliseconds,
        ['{"at": "2024-01-02T03:04:05Z", "on": "2024-01-02"}'],
        ['{"at": "a", "on": "2024-01-02"}'],
    ),
    entry("durations as numbers", FloatDurations, ['{"for": "PT1H"}'], ['{"for": "a"}']),
    entry(
        "strict times",
        StrictTimes,
        ['{"on": "2024-01-02", "at": "2024-01-02T03:04:05Z", "when": "03:04:05", "for_": "PT1S"}'],
        ['{"on": 0}'],
    ),
    entry(
        "stay",
        Stay,
        ['{"arrival": "2024-01-01", "nights": "P2D", "booked": null}'],
        [
            '{"arrival": "2023-12-31", "nights": "P2D"}',
            '{"arrival": "2024-01-01", "nights": "PT1H"}',
        ],
    ),
    entry("list of datetimes", list[datetime], ['["2024-01-02T03:04:05Z"]', "[]"], ['["a"]']),
    entry("ZoneInfo", zoneinfo.ZoneInfo, ['"Europe/Berlin"', '"UTC"'], ['"Mars/Base"']),
)  # fmt: skip
