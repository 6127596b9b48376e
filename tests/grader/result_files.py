"""What does a result file say? Read forgivingly where it does not matter, exactly where it does.

    read(Path("static.txt"), {"total_steps": 0, "slot_util": 4})    ({"total_steps": Number, ...}, notes)
    read(Path("queue.csv"), {"rps": 1, "avg_queue": 3})             ([such a dict for each row], notes)

Accepted: pairs separated by blanks or lines, in any order; CRLF, blanks around csv cells, a byte-order mark, any number
of decimals; further keys and columns, with a note. Not accepted: a key that is missing or there twice, other text, and
whatever is not a finite number from 0 up. It knows nothing of what the numbers should be.
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

    def times(self, factor):
        return as_written(self.text, self.value * factor, self.unit * factor)


def as_written(text, value, unit):
    return Number(text, value, unit, value * (1 - FLOAT_ERROR) - unit / 2, value * (1 + FLOAT_ERROR) + unit)


def read(path, columns):
    """columns: name -> decimals that the exercise asks for, 0 for a whole number. Raises Defect."""
    return (rows_of if path.suffix == ".csv" else pairs_of)(text_of(path), columns)


def text_of(path):
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # reading a pipe would wait for ever
            found = "a folder" if stat.S_ISDIR(status.st_mode) else "a pipe or a device"
            raise Defect("", found, "a file", f"{found} of that name is in the way")
        if status.st_size > MOST_BYTES:
            found = f"a file of {status.st_size:,} bytes"
            raise Defect("", found, "a few lines", "it was appended to again and again, or another file has this name")
        text = path.read_bytes().replace(b"\0", b"\xff").decode("utf-8-sig")  # a zero byte is not of a text either
    except UnicodeDecodeError:
        likely = "saved as UTF-16, as some editors and PowerShell's > do"
        raise Defect("", "bytes that are not UTF-8", "plain text", likely) from None
    except OSError as error:
        likely = "permissions, or a link that leads nowhere"
        raise Defect("", error.strerror, "a file that can be read", likely) from None
    if not text.strip():
        raise Defect("", "an empty file", "its values", "the step stopped between opening the file and writing it")
    return text


def pairs_of(text, columns):
    form, found = " ".join(f"{key}=..." for key in columns), {}
    for word in text.split():
        key, _, value = word.partition("=")
        if not key or not value:
            raise Defect("unexpected text", shown(word), form, no_pair(text, word))
        if key in found:
            likely = "the file was appended to instead of written anew"
            raise Defect(f"key {shown(key)}", "the key twice", "each key once", likely)
        found[key] = number_of(key, value, columns[key]) if key in columns else value
    further = ", ".join(shown(key) for key in list(found)[:9] if key not in columns)
    for key in columns:
        if key not in found:
            likely = f"a misspelt key (found {further})" if further else "the line was cut short"
            raise Defect(f"key {key}", "the key is missing", form, likely)
    notes = [f"further keys, not looked at: {further}"] if further else []
    return {key: found[key] for key in columns}, notes


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
    rows = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines()) if "".join(row).strip()]
    header, further = (rows or [[]])[0], [cell for cell in (rows or [[]])[0] if cell not in columns]
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
    return table, [f"further columns, not looked at: {shown(','.join(further))}"] if further else []


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
