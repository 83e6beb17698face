"""Reading a user's table from a file, whatever program wrote it."""

from __future__ import annotations

import codecs
import csv
import io
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np

from fedrelax.errors import FedRelaxError, in_one_line, listing
from fedrelax.extras import need
from fedrelax.files import TABLE, read_file, why_unread
from fedrelax.schema.numbers import FILE_MARK, MISSING, is_code, read_texts
from fedrelax.typing import DataFrame, Series

TEXT_ENDINGS = (".csv", ".tsv", ".tab", ".txt")
PARQUET_ENDINGS = (".parquet", ".pq")
SEPARATORS = ("\t", ";", "|", ",")
UNNAMED = "Unnamed: "
"""What a column without a name is called, followed by its position."""


def read_table(path: str | Path, as_text: Sequence[str] | Literal[True] = ()) -> DataFrame:
    """Read a table from a text file (.csv, .tsv, .tab, .txt) or a Parquet file (.parquet, .pq).

    Text may be UTF-8, UTF-16 or Windows/Latin-1, separated by comma, semicolon, tab or ``|``; decimal
    commas are understood. The index of a text table, named ``line``, is
    the line in the file, so that messages can point to it. Blank lines are skipped.

    Columns of text hold exactly what is in the file, even "NA"; only an empty field is missing. Columns
    in ``as_text`` (True: all) are read as text even if they hold numbers: 007 stays 007. So is any column
    that holds a code with leading zeros, such as 01234.
    """
    path = Path(path)
    ending = path.suffix.lower()
    if path.is_dir():
        raise FedRelaxError(f"{path} is a directory; give the path of one table in it")
    if not path.exists():
        raise FedRelaxError(f"{path} does not exist; check the path of the table")
    if ending not in TEXT_ENDINGS + PARQUET_ENDINGS:
        raise FedRelaxError(
            f"{path} has the ending {ending!r}, which is not known; save the table as .csv or "
            f".parquet (known endings: {', '.join(TEXT_ENDINGS + PARQUET_ENDINGS)})"
        )
    try:
        content = read_file(path, TABLE)
    except OSError as error:
        denied = isinstance(error, PermissionError)
        hint = "check its permissions" if denied else "give the file of a table"
        raise FedRelaxError(f"{path} cannot be read ({why_unread(error)}); {hint}") from error
    if not content.strip():
        raise FedRelaxError(f"{path} is empty; give a table with a header and at least one row")
    frame = _parquet(path, content) if ending in PARQUET_ENDINGS else _text(path, content, as_text)
    if frame.empty:
        raise FedRelaxError(f"{path} has a header but no rows; add the data below the header")
    return frame


def _parquet(path: Path, content: bytes) -> DataFrame:
    import pandas as pd

    need("pyarrow", "parquet")
    try:
        return pd.read_parquet(io.BytesIO(content), engine="pyarrow")
    except Exception as error:  # pyarrow raises many kinds, each meaning the same to the user
        raise FedRelaxError(
            f"{path} cannot be read as a Parquet file ({in_one_line(error, kind=False)}); "
            f"check the file, or rename it if it is text"
        ) from error


def _text(path: Path, content: bytes, as_text: Sequence[str] | Literal[True]) -> DataFrame:
    import pandas as pd

    decoded = _decode(path, content)
    text = decoded.strip("\n")
    if not text.strip():
        raise FedRelaxError(f"{path} is empty; give a table with a header and at least one row")
    line = 1 + decoded[: decoded.index(text)].count("\n")
    separator = _separator(text)
    try:
        header = next(_records(text, separator))[1]
        names = [name if name.strip() else f"{UNNAMED}{k}" for k, name in enumerate(header)]
        repeated = [name for name, times in Counter(names).items() if times > 1]
        if repeated:
            raise FedRelaxError(
                f"{path} has more than one column named {listing(repeated)}; give every column a "
                "name of its own"
            )
        # Spaces around a name need not be typed.
        asked = {str(name).strip() for name in (names if as_text is True else as_text)}
        exact = {k for k, name in enumerate(names) if name.strip() in asked}
        frame = _read(text, separator, len(names), exact)
        _keep_codes(frame, text, separator, exact)
    except pd.errors.ParserWarning as error:
        raise FedRelaxError(
            f"{path} has rows with more fields than its header of {len(names)} columns; quote the "
            f"fields that contain {separator!r}, or complete the header"
        ) from error
    except (pd.errors.ParserError, csv.Error) as error:
        raise FedRelaxError(
            f"{path} cannot be read as a table separated by {separator!r} "
            f"({in_one_line(error, kind=False)}); "
            f"give every row as many fields as the header and close every quotation mark"
        ) from error
    lines = list(range(1, len(frame) + 1))
    if len(frame) != text.count("\n"):  # some quoted field runs over several lines
        lines = [start for start, _ in _records(text, separator)][1:]
    frame.index = pd.Index([line + start for start in lines], dtype="int64", name="line")
    frame = frame.dropna(how="all")
    frame.attrs[FILE_MARK] = "." if separator == "," else ","
    for k in frame.columns.difference(list(exact)):
        frame[k] = _plain_numbers(frame[k])
    empty = [name.startswith(UNNAMED) and frame[k].isna().all() for k, name in enumerate(names)]
    frame.columns = pd.Index(names, dtype=object)
    return frame.loc[:, ~np.array(empty)]


def _read(text: str, separator: str, width: int, exact: set[int]) -> DataFrame:
    """Read a table with columns numbered by position; those in ``exact`` are read as text."""
    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        return pd.read_csv(
            io.StringIO(text),
            sep=separator,
            header=0,
            names=range(width),
            index_col=False,
            skip_blank_lines=False,
            skipinitialspace=True,
            low_memory=False,
            dtype=dict.fromkeys(exact, str),
            keep_default_na=False,
            na_values=[""],
        )


def _keep_codes(frame: DataFrame, text: str, separator: str, exact: set[int]) -> None:
    """Keep columns of whole numbers as text, and add them to ``exact``, if any has leading zeros."""
    if re.search(rf'[{re.escape(separator)}\n][ "]*0\d', text) is None:
        return
    numeric = set(frame.select_dtypes("number").columns) - exact
    whole = {k for k in numeric if frame[k].notna().any() and (frame[k].dropna() % 1 == 0).all()}
    texts = _read(text, separator, frame.shape[1], exact | whole) if whole else frame
    for k in whole:
        if any(is_code(code.strip()) for code in texts[k].dropna().unique()):
            frame[k] = texts[k]
            exact.add(k)


def _plain_numbers(column: Series) -> Series:
    """Read a column of text as numbers, or as true and false, if all of it but words for gaps is.

    What is written with thousands separators, a currency or a percent sign stays text: the schema says
    how it is read.
    """
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return column
    present = column.dropna().astype(str).str.strip()
    rest = present[~present.isin(MISSING)]
    if rest.empty or any(is_code(text) for text in rest):
        return column
    if rest.isin(("True", "False", "TRUE", "FALSE", "true", "false")).all():
        return rest.str.lower().eq("true").astype(object).reindex(column.index)
    reading = read_texts(rest)
    if reading.unsure or reading.example is not None or np.isnan(reading.values).any():
        return column
    return pd.Series(reading.values, rest.index).reindex(column.index)


def _decode(path: Path, content: bytes) -> str:
    """Text with plain line ends, or a clear refusal where the bytes are not text at all."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encodings = ["utf-16"]
    else:
        encodings = [] if b"\0" in content else ["utf-8-sig", "cp1252", "latin-1"]
    for encoding in encodings:
        try:
            return content.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")
        except UnicodeDecodeError:
            continue
    raise FedRelaxError(f"{path} is not a text file; save the table as .csv in UTF-8, or .parquet")


def _separator(text: str) -> str:
    """The separator that splits the first rows most evenly; of equals, the one with most columns."""

    def evenness(separator: str) -> tuple[float, int]:
        try:
            widths = [len(row) for _, row in islice(_records(text, separator), 50) if row]
        except csv.Error:
            return 0.0, 0
        if not widths or widths[0] < 2:
            return 0.0, 0
        return sum(width == widths[0] for width in widths) / len(widths), widths[0]

    return max(SEPARATORS, key=evenness)


def _records(text: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """The records of a text table, each with the number of lines before it."""
    reader = csv.reader(io.StringIO(text), delimiter=separator, skipinitialspace=True)
    start = 0
    for row in reader:
        yield start, row
        start = reader.line_num
