"""What does a result file say? Read forgivingly where it does not matter, exactly where it does.

    read(Path("static.txt"), {"total_steps": 0, "slot_util": 4})
                                                -> Content({"total_steps": Number, ...}, notes)
    read(Path("queue.csv"), {"rps": 1, "avg_queue": 3})
                                                -> Content([such a dict for each row], notes)

Accepted: pairs separated by blanks or lines, in any order; CRLF, blanks at line ends and around csv
cells, a byte-order mark, any number of decimals; further keys and columns, with a note. Not
accepted: a key that is missing or there twice, other text, and whatever is not a finite number from
0 up. It knows nothing of what the numbers should be.
"""

import csv
import re
import stat
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

NUMBER = re.compile(r"[+-]?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})([eE][+-]?\d{1,2})?", re.ASCII)
FLOAT_ERROR = Fraction(1, 10**9)  # relative; far above what adding floats loses, far below any mistake
MOST_BYTES = 100_000  # the longest right file has some hundred


class Defect(Exception):
    """What keeps a file from being read; args: where in it, what was found, what belongs there, the likely mistake."""


class Content(NamedTuple):
    values: object  # {key: Number} of a .txt, a list of such rows of a .csv
    notes: list  # sentences about what was accepted but not asked for


class Number(NamedTuple):
    """A number as it was written: 0.25 says that the exact one lies between 0.245 (rounded) and 0.26 (cut off)."""

    text: str
    value: Fraction
    unit: Fraction  # of its last digit: 0.25 -> 1/100, 5036 -> 1
    low: Fraction
    high: Fraction

    def agrees(self, exact):
        """Is this the exact number, rounded or cut off at the decimals that are written?"""
        return self.low <= exact <= self.high

    def is_fine(self, exact, decimals):
        """Has it two significant digits, or the decimals that the exercise asks for? (Or is it exact anyway?)"""
        return self.unit <= max(abs(exact) / 10, Fraction(1, 10**decimals)) or self.value == exact

    def says(self, exact, decimals):
        """Is this the exact number? A count (no decimals) must be equal, other numbers agree and are fine enough."""
        return self.value == exact if decimals == 0 else self.agrees(exact) and self.is_fine(exact, decimals)

    def resembles(self, mistake):
        """Is this what a known mistake gives? Three digits will do, since it may have gone through rounded numbers."""
        return self.agrees(mistake) or abs(self.value - mistake) <= abs(mistake) / 2000


def read(path, columns, required=True):
    """columns: name -> decimals that the exercise asks for, 0 for a whole number. Raises Defect.

    required: whether each key of a .txt must be there.
    """
    text = text_of(path)
    return rows_of(text, columns) if path.suffix == ".csv" else pairs_of(text, columns, required)


def text_of(path):
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # reading a pipe would wait for ever
            found = "a folder" if stat.S_ISDIR(status.st_mode) else "a pipe or a device"
            raise Defect("", found, "a file", f"{found} of that name is in the way")
        if status.st_size > MOST_BYTES:
            likely = "it was appended to again and again, or another file has this name"
            raise Defect("", f"a file of {status.st_size:,} bytes", "a few lines", likely)
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        likely = "saved as UTF-16, as some editors and PowerShell's > do"
        raise Defect("", "bytes that are not UTF-8", "plain text", likely) from None
    except OSError as error:
        likely = "permissions, or a link that leads nowhere"
        raise Defect("", error.strerror, "a file that can be read", likely) from None
    if not text.strip():
        raise Defect("", "an empty file", "its values", "the step stopped between opening the file and writing it")
    return text


def pairs_of(text, columns, required):
    form = " ".join(f"{key}=..." for key in columns)
    found, further = {}, {}
    for word in text.split():
        key, _, value = word.partition("=")
        if not key or not value:
            raise Defect("unexpected text", shown(word), form, no_pair(text, word))
        if key in found or key in further:
            likely = "the file was appended to instead of written anew"
            raise Defect(f"key {shown(key)}", "the key twice", "each key once", likely)
        if key in columns:
            found[key] = number_of(key, value, columns[key])
        else:
            further[key] = value
    names = ", ".join(shown(key) for key in list(further)[:9])
    for key in columns:
        if key not in found and required:
            likely = f"a misspelt key (found {names})" if further else "the line was cut short, or it is another step's"
            raise Defect(f"key {key}", "the key is missing", form, likely)
    found = {key: found[key] for key in columns if key in found}  # in this order
    return Content(found, [f"further keys, not looked at: {names}"] if further else [])


def no_pair(text, word):
    """The likely mistake behind a word that is no key=value."""
    if text.lstrip()[0] in "{[":
        return "the file is JSON; the exercise wants key=value, separated by blanks"
    if ":" in word or " :" in text:
        return "a colon stands where an = belongs"
    if " =" in text or "= " in text:
        return "blanks around ="
    return "a heading, a unit or a message in the file" if "=" in text else "no = stands between key and value"


def rows_of(text, columns):
    try:
        rows = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines()) if "".join(row).strip()]
    except csv.Error as error:
        raise Defect("", str(error), "cells separated by commas", "another format under the name .csv") from None
    if not rows:
        likely = "every value was empty when it was written"
        raise Defect("", "commas and no values", f"a row of {','.join(columns)}, and its numbers", likely)
    header, further = rows[0], [cell for cell in rows[0] if cell not in columns]
    notes = [f"further columns, not looked at: {shown(','.join(further))}"] if further else []
    if [cell for cell in header if cell in columns] != list(columns):
        likely = "the header is missing, misspelt or in another order, or the cells are not separated by commas"
        raise Defect("header", shown(",".join(header)), ",".join(columns), likely)
    table = []
    for position, row in enumerate(rows[1:], start=1):
        if len(row) != len(header):
            likely = "a row was cut short, or a decimal comma was read as two cells"
            raise Defect(f"row {position}", shown(",".join(row)), f"{len(header)} cells, as in the header", likely)
        cells = dict(zip(header, row))
        table.append({key: number_of(f"row {position}, {key}", cells[key], columns[key]) for key in columns})
    return Content(table, notes)


def number_of(where, text, decimals):
    if not NUMBER.fullmatch(text):
        raise Defect(where, shown(text), "a number", not_a_number(text))
    number = Decimal(text)
    value = Fraction(number)
    if value < 0:
        raise Defect(where, text, "a number from 0 up", "a difference taken the wrong way round")
    if decimals == 0 and value.denominator != 1:
        raise Defect(where, text, "a whole number", "an average, or another quantity, under the name of a count")
    return as_written(text, value, Fraction(10) ** number.as_tuple().exponent)


def as_written(text, value, unit):
    return Number(text, value, unit, value * (1 - FLOAT_ERROR) - unit / 2, value * (1 + FLOAT_ERROR) + unit)


def not_a_number(text):
    """The likely mistake behind a text where a number belongs."""
    if text.lower().lstrip("+-").startswith(("nan", "inf")):
        return "NaN or infinity: a division by zero, or a mean of nothing"
    if text.endswith("%"):
        return "a percentage; shares go from 0 to 1"
    if "," in text:
        return "a comma: pairs are separated by blanks, and the decimal mark is a point"
    return "an empty value, a unit, or a message instead of a number"


def shown(text):
    """The text with what cannot be printed escaped, cut short."""
    text = ascii(text)
    return text if len(text) <= 60 else f"{text[:57]}..."
