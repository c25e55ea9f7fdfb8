"""What msgspec says of a value that a request cannot have, in words."""

import re

_BOUND = re.compile(r"Expected `\w+[^`]*`( of length)? (>=|<=|>|<) ([\d.e+]+)")
_TYPE = re.compile(r"Expected `([^`]+)`, got `([^`]+)`")
_ENUM = re.compile(r"Invalid enum value (.+)")
_BOUNDS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}


def in_words(message: str, name: str) -> str:
    """Return a message of msgspec about one value as a sentence without its full stop; any other
    as it is.

    name: what has the value, as whoever sent it reads it: `concurrency`, --concurrency."""
    if bound := _BOUND.match(message):
        of_length, sign, value = bound.groups()
        if of_length and (sign, value) == (">=", "1"):
            return f"{name} is empty"
        unit = " long" if of_length else ""
        return f"{name} must be {_BOUNDS[sign]} {value}{unit}"
    if types := _TYPE.match(message):
        expected, got = types.groups()
        return f"{name} must be {_listed(expected)}, not {_listed(got)}"
    if enum := _ENUM.match(message):
        return f"{name} cannot be {enum[1]}"
    return message


def _listed(types: str) -> str:
    return " or ".join(_TYPES.get(one, one) for one in types.split(" | "))
