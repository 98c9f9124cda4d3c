"""nvidia-smi, asked last and as seldom as possible: each run needs about a second.

`-q -x` says nearly everything and is asked first. Whatever comes back is read by what it looks like,
not by what was asked, so a wrapper that answers in another form is understood as well. The parsers are
imported when there is something to parse: most hosts' NVML has answered before.
"""

from __future__ import annotations

import os
import re
import shutil

from ..errors import ArmstageError
from ..run import Completed, run
from .reading import Answer, Reading, Report, as_version

FORMS = (("-q", "-x"), (), ("--version",), ("-q",))
"""Arguments in the order of how much the answer says and how well it can be read."""

WSL = "/usr/lib/wsl/lib/nvidia-smi"
"""Where Windows puts it; not on the PATH of a shell that is not interactive."""

XML = re.compile(r"<\?xml\b.*</nvidia_smi_log>", re.DOTALL)
"""The document of `-q -x`; warnings may stand before and after it (`WARNING: infoROM is corrupted`)."""

BROKEN_GPU = re.compile(r"^.*(GPU is lost|GPU requires reset|infoROM is corrupted).*$", re.MULTILINE)
"""A line in which one GPU is at fault, while the host's driver answers."""

MAX_OUTPUT = 4 * 1024 * 1024
"""Bytes of output that are read; `-q -x` of eight GPUs is half a megabyte."""

FAILURES = (
    ("driver/library version mismatch", 18, "driver-library-mismatch"),
    ("couldn't communicate with the nvidia driver", 9, "driver-not-loaded"),
    ("no devices were found", 6, "no-devices"),
    ("couldn't find libnvidia-ml.so", 12, "cuda-unreported"),
    ("driver is not loaded", 9, "driver-not-loaded"),
    ("nvml: driver not loaded", 9, "driver-not-loaded"),
    ("failed to initialize nvml", None, "cuda-unreported"),
)
"""Text in lower case, exit status where there is one of its own, and what they say about the host.

nvidia-smi's manual lists the exit statuses; 18 was seen with the mismatch (580.126.09, NVML 580.159).
"""


def find(program: str) -> str | None:
    """The path of nvidia-smi: as given when it is a path, else looked for. None where there is none."""
    if os.sep in program:
        return program if os.path.exists(program) else None
    return shutil.which(program) or (WSL if os.path.exists(WSL) else None)


def ask(program: str, timeout: float) -> Answer:
    """Ask until driver, CUDA and GPUs are known; each run may take ``timeout`` seconds.

    The first run that does not return, whose output is cut off, or that names a fault of the host
    ends it: the next one would say the same.
    """
    from . import smi_text

    answer = Answer("nvidia-smi")
    for form in FORMS:
        if not _run(answer, program, form, timeout):
            if answer.status == "no-devices" and not answer.has("cuda"):
                _run(answer, program, ("--version",), timeout)
            return answer
        cuda = answer.has("cuda") or answer.has("refused")
        if cuda and answer.has("driver") and answer.has("gpus"):
            break
    gpus = next((report.gpus for report in answer.reports if report.gpus), [])
    if not all(gpu["compute_capability"] for gpu in gpus) or not gpus:
        _query(answer, program, "gpu", smi_text.GPU_QUERY, timeout)
    if any(gpu["mig"] for report in answer.reports for gpu in report.gpus):
        _run(answer, program, ("-L",), timeout)
    if all(report.processes is None for report in answer.reports):
        _query(answer, program, "compute-apps", smi_text.PROCESS_QUERY, timeout)
    return answer


def _query(answer: Answer, program: str, kind: str, columns: tuple[str, ...], timeout: float) -> None:
    if not answer.wedged:
        form = (f"--query-{kind}={','.join(columns)}", "--format=csv")
        _run(answer, program, form, timeout, columns)


def _run(answer: Answer, program: str, form: tuple[str, ...], timeout: float, columns: tuple[str, ...] = ()) -> bool:
    """Run it once and take what it says; False when asking on is of no use."""
    shown = " ".join(("nvidia-smi", *form))
    try:
        completed = run([program, *form], timeout, {**os.environ, "LC_ALL": "C"}, max_output=MAX_OUTPUT)
    except OSError as error:
        answer.notes.append(f"`{program}` does not start: {error.strerror or error}")
        return False
    if completed.timed_out:
        left = " and could not be killed" if completed.abandoned else ""
        answer.wedged = f"`{shown}` did not return within {timeout:g} s{left}"
        return False
    if completed.truncated:
        answer.notes.append(f"`{shown}` wrote more than {MAX_OUTPUT // 2**20} MiB, which was cut off")
        return False
    return _take(answer, completed, shown, columns)


def _take(answer: Answer, completed: Completed, shown: str, columns: tuple[str, ...]) -> bool:
    status, line = failure(completed)
    if status:
        answer.status, answer.line = answer.status or status, answer.line or line
        answer.reports.append(_library_of(completed, shown))
        return False
    broken = BROKEN_GPU.search(completed.out)
    if broken and not any(broken[1] in note for note in answer.notes):
        answer.notes.append(f"`{shown}` says: `{broken[0].strip()[:200]}`")
    try:
        report = parse(completed.out, shown, columns)
    except ArmstageError as error:
        answer.notes.append(error.message)
        return True
    if not _says(report, completed.rc):
        told = next((line for line in (completed.out + completed.err).splitlines() if line.strip()), "")
        end = f"ended with status {completed.rc}" if completed.rc else "names no driver and no GPU"
        trouble = f" {end}: `{told.strip()[:200]}`"
        if not any(note.endswith(trouble) for note in answer.notes):
            answer.notes.append(f"`{shown}`{trouble}")
        return True
    answer.reports.append(report)
    return True


def _says(report: Report, rc: int | None) -> bool:
    """Whether there is anything in it; an empty list of processes is an answer only of a run that succeeded."""
    listed = bool(report.processes) if rc else report.processes is not None
    return bool(report.driver or report.cuda or report.refused or report.gpus or report.mig_devices or listed)


def parse(text: str, source: str, columns: tuple[str, ...] = ()) -> Report:
    """Read an output of nvidia-smi by what it looks like. Raises ArmstageError for broken XML.

    ``columns`` are those of a csv query; without them, what is none of the forms says nothing.
    """
    from . import smi_text, smi_xml

    start = text.lstrip()[:400]
    document = XML.search(text)
    if document or start.startswith("<"):
        return smi_xml.parse(document[0] if document else text.lstrip(), source)
    if "NVSMI LOG" in start:
        return smi_text.query(text, source)
    if start.startswith("GPU 0: "):
        return smi_text.listing(text, source)
    if start.lower().startswith("nvidia-smi version"):
        return smi_text.version_table(text, source)
    if "| NVIDIA-SMI" in text or not columns:
        return smi_text.banner(text, source)
    return smi_text.table(text, source, columns)


def failure(completed: Completed) -> tuple[str | None, str]:
    """(status, literal line) of a run that says why it cannot answer, else (None, "")."""
    lines = [line.strip() for line in (completed.out[:4096] + "\n" + completed.err[:4096]).splitlines()]
    for words, code, status in FAILURES:
        line = next((line for line in lines if words in line.lower()), None)
        if line is not None:
            return status, line[:200]
        if code is not None and completed.rc == code and not completed.out.strip():
            return status, next((line[:200] for line in lines if line), f"exit status {code}")
    return None, ""


def _library_of(completed: Completed, source: str) -> Report:
    """The second line of a mismatch: `NVML library version: 580.159`."""
    report = Report(source)
    for line in (completed.out + "\n" + completed.err)[:4096].splitlines():
        name, _colon, value = line.partition(":")
        if name.strip().lower() == "nvml library version" and as_version(value):
            report.library = Reading(as_version(value), source, line.strip())
    return report
