"""Read a result file as its author meant it: forgiving where it does not matter, exact where it does.

    read(Path("static.txt"), {"total_steps": 0, "slot_util": 4})  -> {"total_steps": Number, "slot_util": Number}
    read(Path("queue.csv"), {"rps": 1, "avg_queue": 3})           -> a list with such a dict for each row

Accepted: pairs separated by blanks or lines, in any order; CRLF, blanks at line ends and around csv cells, a byte-order
mark, any number of decimals. Not accepted: a key that is missing, twice there or unknown, other text, and whatever is
not a finite number from 0 up. It knows nothing of what the numbers should be.
"""

import csv
import re
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

NUMBER = re.compile(r"[+-]?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})([eE][+-]?\d{1,2})?", re.ASCII)
FLOAT_ERROR = Fraction(1, 10**9)  # relative; far above what adding floats loses, far below any mistake


class Defect(Exception):
    """What keeps a file from being read; args: where in it, what was found, what belongs there, the likely mistake."""


class Number(NamedTuple):
    """A number as it was written: 0.25 says that the exact one lies between 0.245 (rounded) and 0.26 (cut off)."""

    text: str
    value: Fraction
    unit: Fraction  # of its last digit: 0.25 -> 1/100, 5036 -> 1

    @property
    def low(self):
        return self.value * (1 - FLOAT_ERROR) - self.unit / 2

    @property
    def high(self):
        return self.value * (1 + FLOAT_ERROR) + self.unit

    def agrees(self, exact):
        """Is this the exact number, rounded or cut off at the decimals that are written?"""
        return self.low <= exact <= self.high

    def is_fine(self, exact, decimals):
        """Has it two significant digits, or the decimals that the exercise asks for? (Or is it exact anyway?)"""
        return self.unit <= max(abs(exact) / 10, Fraction(1, 10**decimals)) or self.value == exact

    def says(self, exact, decimals):
        return self.agrees(exact) and self.is_fine(exact, decimals)

    def meets(self, other):
        """Can two written numbers be the same exact one?"""
        return self.low <= other.high and other.low <= self.high

    def resembles(self, mistake):
        """Is this what a known mistake gives? Three digits will do, since it may have gone through rounded numbers."""
        return self.agrees(mistake) or abs(self.value - mistake) <= abs(mistake) / 2000


def read(path, columns):
    """columns: name -> decimals that the exercise asks for, 0 for a whole number. Raises Defect."""
    text = text_of(path)
    return rows_of(text, columns) if path.suffix == ".csv" else pairs_of(text, columns)


def text_of(path):
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        likely = "its step was not run or failed, or it wrote into another folder than OUT"
        raise Defect("", "no such file", "the file", likely) from None
    except UnicodeDecodeError:
        likely = "saved as UTF-16, as some editors and PowerShell's > do"
        raise Defect("", "bytes that are not UTF-8", "plain text", likely) from None
    except OSError as error:
        raise Defect("", error.strerror, "a file that can be read", "a folder of that name, or permissions") from None
    if not text.strip():
        raise Defect("", "an empty file", "its values", "the step stopped between opening the file and writing it")
    return text


def pairs_of(text, columns):
    form = " ".join(f"{key}=..." for key in columns)
    found = {}
    for word in text.split():
        key, _, value = word.partition("=")
        if not value:
            blanks = " =" in text or "= " in text
            likely = "blanks around =" if blanks else "a heading, a unit or a message was written into the file"
            raise Defect("unexpected text", shown(word), form, likely)
        if key in found:
            likely = "the file was appended to instead of written anew"
            raise Defect(f"key {shown(key)}", "the key twice", "each key once", likely)
        if key not in columns:
            raise Defect(f"key {shown(key)}", "an unknown key", form, "a misspelt key, or another step's file")
        found[key] = number_of(key, value, columns[key])
    for key in columns:
        if key not in found:
            raise Defect(f"key {key}", "the key is missing", form, "a misspelt key, or another step's file")
    return found


def rows_of(text, columns):
    header = ",".join(columns)
    try:
        rows = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines()) if "".join(row).strip()]
    except csv.Error as error:
        raise Defect("", str(error), "cells separated by commas", "another format under the name .csv") from None
    if not rows:
        raise Defect(
            "",
            "commas and no values",
            f"a row of {header}, and its numbers",
            "every value was empty when it was written",
        )
    if rows[0] != list(columns):
        likely = "the header is missing, misspelt or in another order, or the cells are not separated by commas"
        raise Defect("header", shown(",".join(rows[0])), header, likely)
    table = []
    for position, row in enumerate(rows[1:], start=1):
        if len(row) != len(columns):
            likely = "a row was cut short, or a decimal comma was read as two cells"
            raise Defect(f"row {position}", shown(",".join(row)), f"{len(columns)} cells: {header}", likely)
        cells = zip(columns, row)
        table.append({key: number_of(f"row {position}, {key}", cell, columns[key]) for key, cell in cells})
    return table


def number_of(where, text, decimals):
    if not NUMBER.fullmatch(text):
        raise Defect(where, shown(text), "a number", not_a_number(text))
    number = Decimal(text)
    value = Fraction(number)
    if value < 0:
        raise Defect(where, text, "a number from 0 up", "a difference taken the wrong way round")
    if decimals == 0 and value.denominator != 1:
        raise Defect(where, text, "a whole number", "an average, or another quantity, under the name of a count")
    return Number(text, value, Fraction(10) ** number.as_tuple().exponent)


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
