"""PyTorch's data types, by their names in traces, of which some are those of C++."""

from __future__ import annotations

_WIDTHS = {
    "bool": 1,
    "signed char": 1,
    "unsigned char": 1,
    "byte": 1,
    "char": 1,
    "uint8": 1,
    "int8": 1,
    "short": 2,
    "short int": 2,
    "half": 2,
    "bfloat16": 2,
    "int16": 2,
    "uint16": 2,
    "float16": 2,
    "int": 4,
    "float": 4,
    "int32": 4,
    "uint32": 4,
    "float32": 4,
    "complexhalf": 4,
    "long": 8,
    "long int": 8,
    "double": 8,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
    "complexfloat": 8,
    "complex64": 8,
    "complexdouble": 16,
    "complex128": 16,
}


def width_of(name: str) -> int | None:
    """Return the bytes of one value; ``None``: the type is unknown.

    >>> width_of("BFloat16"), width_of("torch.float32"), width_of("Float8_e4m3fn"), width_of("Rational")
    (2, 4, 1, None)
    """
    plain = name.lower().removeprefix("torch.").removeprefix("c10::")
    return 1 if plain.startswith("float8") else _WIDTHS.get(plain)
