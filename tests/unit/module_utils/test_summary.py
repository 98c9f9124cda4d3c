"""The lines that end a run."""

from ansible.module_utils.armstage.summary import Run, bytes_text, lines

RELEASE = {
    "name": "uv",
    "version": "0.10.0",
    "path": "/r/store/uv-0.10.0-aa",
    "source": {"kind": "pypi", "sha256": "eb95d28590edd73b"},
    "size": 47_700_000,
    "elf": {"aarch64": 2},
    "seconds": 1.25,
}
PLAN = {
    "root": "/work/u/.local",
    "warnings": ["CPython 3.12.12 is not staged"],
    "nodes": {"gb01": {"tag": "cu130", "reason": "CUDA 13.0 is the newest"}},
}


def text(run, failed=()):
    return "\n".join(line.text for line in lines(run, failed))


def test_a_run_that_staged_and_proved_nothing_says_nothing():
    assert lines(Run()) == []


def test_a_component_shows_where_it_is_from_and_how_long_it_took():
    run = Run()
    run.note("localhost", {"changed": True, "release": RELEASE})
    run.note("localhost", {"changed": False, "release": {**RELEASE, "name": "ffmpeg", "path": "/r/store/f"}})
    shown = text(run)
    assert "uv         0.10.0   pypi    47.7 MB  eb95d28590ed  1.2 s" in shown
    assert "ffmpeg     0.10.0   pypi    47.7 MB  eb95d28590ed  unchanged" in shown
    assert "ELF files staged: 4; 4 are aarch64; none was executed to stage them" in shown


def test_a_release_that_only_was_predicted_is_not_counted_twice():
    run = Run()
    run.note("localhost", {"changed": False, "release": RELEASE})
    run.note("localhost", {"changed": True, "release": RELEASE})
    assert text(run).count("eb95d28590ed") == 1


def test_what_was_chosen_proved_and_fallen_back_on_is_said():
    run = Run()
    run.note("localhost", {"ansible_facts": {"armstage_plan": PLAN}})
    run.note("localhost", {"release": RELEASE, "skipped_sources": [{"url": "https://up", "reason": "no route"}]})
    run.note("gb01", {"ok": True, "message": "decoded 60 frames", "proof": {}})
    shown = text(run)
    for words in (
        "not used: https://up: no route",
        "WARN: CPython",
        "gb01: cu130: CUDA 13.0",
        "gb01: decoded 60 frames",
    ):
        assert words in shown
    assert "Next: in a job script, on the node:  . /work/u/.local/env.sh" in shown


def test_a_failed_run_names_the_hosts_and_promises_nothing():
    run = Run()
    run.note("localhost", {"ansible_facts": {"armstage_plan": PLAN}})
    run.note("localhost", {"release": RELEASE})
    assert "Failed on gb01" in text(run, ["gb01"])
    assert "Next" not in text(run, ["gb01"])


def test_what_is_different_from_the_last_run_is_said():
    run = Run()
    run.note("localhost", {"release": RELEASE})
    run.note("localhost", {"since_last_run": []})
    assert "Since the last run" not in text(run)
    run.note("localhost", {"since_last_run": ["gb01: driver 570.172.08 -> 580.95.05", "uv unchanged"]})
    assert "Since the last run:\n  gb01: driver 570.172.08 -> 580.95.05\n  uv unchanged\n" in text(run)


def test_sizes_are_decimal():
    assert [bytes_text(count) for count in (0, 999, 1000, 47_700_000, 4_939_212_390)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "47.7 MB",
        "4.9 GB",
    ]


def test_where_uv_would_choose_otherwise_it_is_said_why():
    run = Run()
    choice = {**PLAN["nodes"]["gb01"], "uv_auto": {"tag": "cu132", "reason": "uv's auto tries cu132 first"}}
    run.note("localhost", {"ansible_facts": {"armstage_plan": {**PLAN, "nodes": {"gb01": choice}}}})
    run.note("localhost", {"release": RELEASE})
    assert "gb01: uv's auto tries cu132 first" in text(run)


def test_a_check_says_what_would_be_and_nothing_that_was_not_measured():
    planned = {**RELEASE, "name": "ffmpeg", "path": "/r/store/f", "size": 0, "elf": {}, "seconds": 0.3}
    moved = {**RELEASE, "name": "cpython", "path": "/r/store/c", "size": 999}
    run = Run(check=True)
    run.note("localhost", {"ansible_facts": {"armstage_plan": PLAN}})
    run.note("localhost", {"changed": False, "release": RELEASE})
    run.note("localhost", {"changed": True, "release": planned})
    run.note("localhost", {"changed": True, "release": moved})
    run.note("localhost", {"since_last_run": ["FFmpeg staged; uv unchanged"]})
    assert text(run).splitlines() == [
        "",
        "component  version  source  size     sha256        would be",
        "uv         0.10.0   pypi    47.7 MB  eb95d28590ed  unchanged",
        "ffmpeg     0.10.0   pypi             eb95d28590ed  staged",
        "cpython    0.10.0   pypi    999 B    eb95d28590ed  brought up to date",
        "A run would note, since the last one:",
        "  FFmpeg staged; uv unchanged",
        "WARN: CPython 3.12.12 is not staged",
        "gb01: cu130: CUDA 13.0 is the newest",
        "",
        "Nothing was changed. Next: the same without --check",
    ]


def test_a_check_of_an_empty_root_has_no_column_of_sizes():
    run = Run(check=True)
    run.note("localhost", {"changed": True, "release": {**RELEASE, "size": 0, "elf": {}}})
    assert "component  version  source  sha256        would be" in text(run)


def test_a_check_of_what_is_up_to_date_ends_as_a_run_does():
    run = Run(check=True)
    run.note("localhost", {"ansible_facts": {"armstage_plan": PLAN}})
    run.note("localhost", {"changed": False, "release": RELEASE})
    assert text(run).endswith("Next: in a job script, on the node:  . /work/u/.local/env.sh && python your_program.py")


def test_a_check_that_failed_promises_nothing():
    run = Run(check=True)
    run.note("localhost", {"changed": True, "release": RELEASE})
    assert "Failed on gb01" in text(run, ["gb01"])
    assert "Next" not in text(run, ["gb01"])
