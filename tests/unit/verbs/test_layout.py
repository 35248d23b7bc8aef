"""The layout of the shared files is the same in C and in Python."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from agent.verbs import layout
from tests.rig.verbs.programs import SOURCES

STRUCTS = {
    "file_header": layout.HEADER,
    "port_row": layout.PORT_ROW,
    "qp_record": layout.QP_RECORD,
}
NUMBERS = {
    "LAYOUT_VERSION": layout.LAYOUT_VERSION,
    "GIDS_BYTES": layout.GIDS_BYTES,
    "PORTS_MAGIC": layout.PORTS_MAGIC,
    "RING_MAGIC": layout.RING_MAGIC,
    "PROCESS_LOCK": layout.PROCESS_LOCK,
    "AGENT_LOCK": layout.AGENT_LOCK,
    **{f"FILE_{each.name}": each for each in layout.FileState},
    **{f"QP_{each.name}": each for each in layout.RecordKind},
    **{str(each.name): each for each in layout.RecordFlag},
}


def test_c_and_python_have_the_same_layout(tmp_path: Path) -> None:
    lines = [f'printf("{name} %llu\\n", (unsigned long long){name});' for name in NUMBERS]
    for struct, fields in STRUCTS.items():
        lines.append(f'printf("{struct} %zu\\n", sizeof(struct {struct}));')
        lines += [f'printf("{struct}.{name} %zu\\n", offsetof(struct {struct}, {name}));' for name, _ in fields]
    source = tmp_path / "layout.c"
    body = "\n".join(lines)
    source.write_text(f'#include <stdio.h>\n#include <stddef.h>\n#include "layout.h"\nint main(void) {{\n{body}\n}}\n')
    program = tmp_path / "layout"
    subprocess.run(["gcc", f"-I{SOURCES}", "-o", program, source], check=True)
    printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    expected = {name: int(value) for name, value in NUMBERS.items()}
    for struct, fields in STRUCTS.items():
        expected[struct] = layout.packing(fields).size
        expected |= {f"{struct}.{name}": layout.offset_of(fields, name) for name, _ in fields}
    assert {name: int(value) for name, value in (line.split() for line in printed.splitlines())} == expected


def test_every_name_of_the_header_in_c_is_compared() -> None:
    text = (SOURCES / "layout.h").read_text()
    names = {*re.findall(r"\b((?:FILE|QP|PORT)_[A-Z_]+) =", text)}
    assert names == {name for name in NUMBERS if name.startswith(("FILE_", "QP_", "PORT_"))}
    assert {*re.findall(r"^struct (\w+) \{", text, re.MULTILINE)} == STRUCTS.keys()
