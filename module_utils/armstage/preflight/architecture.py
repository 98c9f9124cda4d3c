"""A1: host, interpreter and every ELF file of the environment are of one architecture, and load on this kernel."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from ..elf.abi import as_numbers, glibc_offered, glibc_required, stack_refused
from ..elf.loader import Library, Process
from ..elf.reader import ElfFile, machine_if_whole
from ..elf.words import listed
from ..errors import ArmstageError
from .context import ARCH, Context, shown
from .model import FAIL, PASS, SKIP, WARN, Fact, Finding, worst

STAGE_AGAIN = (
    "Put back what was staged: remove what was copied or installed into the environment, then `./armstage stage`"
)


def check(context: Context) -> Finding:
    host = context.driver_fact("arch")
    if context.machine != ARCH:
        return Finding(
            FAIL,
            f"this host is {context.machine}, the toolchain is for {ARCH}",
            "Run on a compute node, inside a job: this looks like a login node",
            host.source,
            (host,),
        )
    if not context.env:
        return Finding(
            SKIP,
            f"the host is {context.machine}; no environment was given to look into",
            "Source env.sh first, or name one: --env PATH",
            host.source,
            (host,),
        )
    files, broken = context.elves
    source, offered = os.path.realpath(context.env), _offered(context)
    problems = [
        *_interpreter(context),
        *_wrong_machine(context, files),
        *_page_size(context, files),
        *_glibc(context, files, offered),
        *_stack(context, files, offered),
        *_broken([*broken, *_unfinished(context)]),
    ]
    required = _required(files)
    page = f"{context.page_size // 1024} KiB"
    fine = Finding(
        PASS,
        f"host, Python and {len(files)} ELF files are {ARCH}, fit {page} pages and need glibc {required or 'none'}"
        f" of {offered or 'unknown'}",
        source=source,
        facts=(host, Fact("ELF files", str(len(files)), source), Fact("page size", page, "sysconf(SC_PAGE_SIZE)")),
    )
    return worst(problems, fine)


def _interpreter(context: Context) -> Iterator[Finding]:
    """The environment's Python, by the machine its file is for."""
    path = next((path for path in _pythons(context.env) if os.path.lexists(path)), None)
    if path is None:
        return  # a folder of packages, without a Python of its own
    real = context.tree.real(os.readlink(path)) if _is_absolute_link(path) else os.path.realpath(path)
    if not os.path.exists(real):
        detail = f"`{path}` leads to `{real}`, which is not on this node"
        hint = "Install that Python on the node, or stage CPython into the root (docs/offline.md)"
        yield Finding(FAIL, detail, hint, path)
    elif machine_if_whole(real) != ARCH:
        machine = machine_if_whole(real) or "no machine: it is not an ELF file"
        yield Finding(FAIL, f"the environment's Python `{real}` is for {machine}", STAGE_AGAIN, real)


def _pythons(env: str) -> list[str]:
    return [os.path.join(env, "bin", name) for name in ("python", "python3")]


def _is_absolute_link(path: str) -> bool:
    return os.path.islink(path) and os.readlink(path).startswith("/")


def _wrong_machine(context: Context, files: Sequence[ElfFile]) -> Iterator[Finding]:
    wrong = [file for file in files if file.machine != ARCH]
    if wrong:
        machines = listed(sorted({file.machine for file in wrong}))
        yield Finding(FAIL, f"{_files(context, wrong)} for {machines}, not {ARCH}", STAGE_AGAIN, wrong[0].path)


def _page_size(context: Context, files: Sequence[ElfFile]) -> Iterator[Finding]:
    """A library whose segments are aligned to less than a page is refused by the loader on this kernel."""
    small = [file for file in files if file.machine == ARCH and not file.page_size_ok(context.page_size)]
    if small:
        least = min(alignment for file in small for alignment in file.alignments)
        yield Finding(
            FAIL,
            f"{_files(context, small)} aligned to {least // 1024 or least} {'KiB' if least >= 1024 else 'bytes'}:"
            f" this kernel has pages of {context.page_size // 1024} KiB and will not load it",
            "Use a build of it for 64 KiB pages (manylinux aarch64 wheels are), or boot a kernel with 4 KiB pages",
            small[0].path,
        )


def _glibc(context: Context, files: Sequence[ElfFile], offered: str | None) -> Iterator[Finding]:
    required = _required(files)
    if required and offered and as_numbers(required) > as_numbers(offered):
        needy = [file for file in files if _required([file]) == required]
        yield Finding(
            FAIL,
            f"{_files(context, needy)} in need of glibc {required}, and this host has {offered}",
            f"Use wheels for manylinux_2_{as_numbers(offered)[1]} or older, or a newer system",
            needy[0].path,
        )


def _stack(context: Context, files: Sequence[ElfFile], offered: str | None) -> Iterator[Finding]:
    refused = [file for file in files if file.machine == ARCH and stack_refused(Library(file.path, file), offered)]
    if refused:
        yield Finding(
            FAIL,
            f"{_files(context, refused)} marked for an executable stack: glibc {offered} of this host does not load it"
            " (`cannot enable executable stack as shared object requires`)",
            "Install a newer build of it, or clear the mark (patchelf 0.18): patchelf --clear-execstack "
            + refused[0].path,
            refused[0].path,
        )


def _required(files: Sequence[ElfFile]) -> str | None:
    return glibc_required(Library(file.path, file) for file in files)


def _offered(context: Context) -> str | None:
    """The glibc of the host, from its own libc.so.6."""
    process = Process(context.system, ARCH)
    for path in context.system.candidates("libc.so.6"):
        if process.open(path):
            return glibc_offered(process)
    return None


def _unfinished(context: Context) -> list[str]:
    """Distributions of which only a part is there; none in a folder that is no environment, as other checks say."""
    try:
        return context.unfinished if context.packages else []
    except ArmstageError:
        return []


def _broken(broken: Sequence[str]) -> Iterator[Finding]:
    if broken:
        more = f", and {len(broken) - 1} more" if len(broken) > 1 else ""
        yield Finding(WARN, f"{broken[0]}{more}", STAGE_AGAIN)


def _files(context: Context, files: Sequence[ElfFile]) -> str:
    """``3 files (torch/lib/libc10.so and 2 more) are``."""
    first = f"`{shown(files[0].path, context.env)}`"
    return f"{first} is" if len(files) == 1 else f"{len(files)} files ({first} and {len(files) - 1} more) are"
