"""Damaged input: no exception, and never a version that does not stand behind its own field name.

Each example takes a recorded output, damages it, and reads it. ARMSTAGE_EXAMPLES sets how many (20000
for the long run).
"""

import json
import os
import re
from pathlib import Path

from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.nvidia import driver, kernel, merge, smi, smi_text
from ansible.module_utils.armstage.nvidia.reading import Answer, Reading
from hypothesis import given, settings
from hypothesis import strategies as st

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "nvidia"
RECORDINGS = {
    path.relative_to(FIXTURES).as_posix(): path.read_text(encoding="utf-8")
    for folder in ("smi", "proc")
    for path in sorted((FIXTURES / folder).iterdir())
    if path.suffix in (".txt", ".xml")
}
VERSION = r"\d+(?:\.\d+){1,3}"
BEHIND = {
    "driver": rf"(?:KMD|Driver)[ _]Version[^\S\n]*[:>]\s*({VERSION})(?![\w.])",
    "cuda": rf"CUDA[ _](?:UMD[ _])?Version[^\S\n]*[:>]\s*({VERSION})(?![\w.])",
    "library": rf"NVML[^\S\n]+version[^\S\n]*:\s*({VERSION})(?![\w.])",
    "module": rf"Kernel Module(?:[^\S\n]+for[^\S\n]*\S+)?[^\S\n]+({VERSION})(?!\S)",
}
"""What may stand for each value in a damaged text: a version right behind the field's name."""

SCRAPS = st.sampled_from(
    [
        *"|:.,<>[]&;0139 \t\n\r\0\x1b\x85\u2028\u0660\ufffd",
        "N/A", "[N/A]", "ERR!", "Not Supported", "13.0", "99.99.99", "| ", "<gpu>", "</gpu>", "<!ENTITY x 'y'>", "&x;",
        "Processes:", "MIG devices:", "GPU 0: ", "\nNVIDIA-SMI version", "Deprecated", " : ", "CUDA", "NVSMI LOG", "<",
    ]
)  # fmt: skip
EDITS = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 40), st.one_of(st.just(""), SCRAPS, st.text(max_size=8))), max_size=8
)


LOST_LINES = st.lists(st.floats(0, 1), max_size=4)


def damaged(text, edits, lost):
    """The text without some lines, and with some characters replaced; places are fractions of its length."""
    lines = text.splitlines(keepends=True)
    for place in lost:
        at = int(place * len(lines))
        del lines[at : at + 1]
    text = "".join(lines)
    for place, length, instead in edits:
        at = int(place * len(text))
        text = text[:at] + instead + text[at + length :]
    return text


def columns_of(name):
    queries = {"smi/csv": smi_text.GPU_QUERY, "smi/apps": smi_text.PROCESS_QUERY}
    return queries.get(name.split("-")[0], ())


def allowed(kind, text):
    return {match.group(1) for match in re.finditer(BEHIND[kind], text, re.IGNORECASE)}


def check_report(name, text):
    try:
        report = smi.parse(text, "nvidia-smi", columns_of(name))
    except ArmstageError:
        assert text.lstrip().startswith("<")
        return None
    for kind in ("driver", "cuda", "library"):
        reading = getattr(report, kind)
        if reading is not None and columns_of(name) and kind == "driver":
            cells = {
                cell.strip().split("[")[0].strip() for cell in re.split(r"[,\n\r\v\f\x1c-\x1e\x85\u2028\u2029]", text)
            }
            assert reading.value in cells | allowed(kind, text)
        elif reading is not None:
            assert reading.value in allowed(kind, text), (kind, reading)
    return report


@settings(max_examples=int(os.environ.get("ARMSTAGE_EXAMPLES", "500")), deadline=None, database=None)
@given(name=st.sampled_from(sorted(RECORDINGS)), edits=EDITS, lost=LOST_LINES)
def test_damaged_input(name, edits, lost):
    text = damaged(RECORDINGS[name], edits, lost)
    host = merge.Host("/nonexistent", kernel.Kernel())
    if name.startswith("proc/"):
        module = kernel.parse_proc(text)
        assert module.version is None or module.version in allowed("module", text)
        host.kernel.module, host.kernel.loaded = module, True
        if module.version:
            host.kernel.readings = [Reading(module.version, "/proc/driver/nvidia/version", module.line)]
    else:
        report = check_report(name, text)
        host.answers = [Answer("nvidia-smi", [report] if report else [])]
    facts = driver.facts(host, {})
    json.dumps(facts)
    assert facts["status"] in driver.verdict.MESSAGES


def test_undamaged_input_reads_as_recorded():
    """The patterns above are not vacuous: they hold what the recordings say."""
    assert allowed("driver", RECORDINGS["smi/banner-591.44-wsl.txt"]) == {"591.44"}
    assert allowed("cuda", RECORDINGS["smi/q-610.57.04.txt"]) == {"13.3"}
    assert allowed("cuda", RECORDINGS["smi/qx-615.23-rubin.xml"]) == {"13.4"}
    assert allowed("module", RECORDINGS["proc/open-580.142-aarch64.txt"]) == {"580.142"}
    assert allowed("library", RECORDINGS["smi/version-610.43.02.txt"]) == {"610.43"}
