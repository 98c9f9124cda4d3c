"""Every recorded form of nvidia-smi, against the values beside it."""

from pathlib import Path

import pytest
import yaml
from ansible.module_utils.armstage.errors import ArmstageError
from ansible.module_utils.armstage.nvidia import smi, smi_text, smi_xml
from ansible.module_utils.armstage.nvidia.reading import GPU_FIELDS, MIG_FIELDS, PROCESS_FIELDS, record
from ansible.module_utils.armstage.run import Completed

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "nvidia" / "smi"
EXPECTED = yaml.safe_load((FIXTURES / "expected.yaml").read_text(encoding="utf-8"))
COLUMNS = {"csv": smi_text.GPU_QUERY, "apps": smi_text.PROCESS_QUERY}


def text_of(name):
    return (FIXTURES / name).read_text(encoding="utf-8")


def parse(name):
    return smi.parse(text_of(name), "nvidia-smi", COLUMNS.get(name.split("-")[0], ()))


def value(reading):
    return reading and reading.value


@pytest.mark.parametrize("name", EXPECTED)
def test_recorded_output(name):
    expected, report = EXPECTED[name], parse(name)
    assert value(report.driver) == expected.get("driver")
    assert value(report.cuda) == expected.get("cuda")
    assert value(report.library) == expected.get("library")
    assert report.refused == expected.get("refused")
    assert report.gpus == [record(GPU_FIELDS, **gpu) for gpu in expected.get("gpus", [])]
    assert report.mig_devices == [record(MIG_FIELDS, **mig) for mig in expected.get("mig_devices", [])]
    processes = expected.get("processes")
    assert report.processes == (
        None if processes is None else [record(PROCESS_FIELDS, **process) for process in processes]
    )


def test_every_recording_has_expected_values():
    named = {
        path.name for path in FIXTURES.iterdir() if path.name.startswith(("banner", "version", "q", "csv", "apps"))
    }
    assert named == {name for name in EXPECTED if not name.startswith(("list", "nvlink"))}


@pytest.mark.parametrize("name", [name for name, expected in EXPECTED.items() if "driver" in expected])
def test_a_reading_holds_its_literal_line(name):
    report, text = parse(name), text_of(name)
    for reading in (report.driver, report.cuda):
        if reading:
            assert reading.value in reading.line
            assert reading.line in text


@pytest.mark.parametrize("persistence", ["On", "Off", "N/A", "ERR!"])
@pytest.mark.parametrize(("bus", "bus_id"), [("0000000F:01:00.0", "0000000F:01:00.0"), ("            ERR!", None)])
def test_a_gpu_whose_fields_are_errors_stays_in_the_list(persistence, bus, bus_id):
    text = text_of("banner-580.95.05-gb10.txt")
    row = "|   0  NVIDIA GB10                    On  |   0000000F:01:00.0 Off |"
    assert row in text
    text = text.replace(row, f"|   0  NVIDIA GB10                  {persistence:>4}  |   {bus} Off |")
    assert [(gpu["name"], gpu["bus_id"]) for gpu in smi.parse(text, "nvidia-smi").gpus] == [("NVIDIA GB10", bus_id)]


@pytest.mark.parametrize("name", ["bad-bomb.xml", "bad-external.xml", "bad-undeclared.xml"])
def test_entities_are_refused(name):
    with pytest.raises(ArmstageError, match="without entities") as caught:
        smi_xml.parse(text_of(name), "nvidia-smi -q -x")
    assert caught.value.hint


def test_a_bomb_is_refused_before_it_grows():
    """Nine levels of ten would be a gigabyte; the first declaration already ends it."""
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
    text = f'<!DOCTYPE nvidia_smi_log [<!ENTITY e0 "x">{entities}]><nvidia_smi_log>&e9;</nvidia_smi_log>'
    with pytest.raises(ArmstageError, match="received the entity `e0`"):
        smi_xml.parse(text, "nvidia-smi -q -x")


@pytest.mark.parametrize("name", ["bad-truncated.xml", "bad-other-root.xml"])
def test_other_xml_is_refused(name):
    with pytest.raises(ArmstageError, match="Expected"):
        smi_xml.parse(text_of(name), "nvidia-smi -q -x")


def test_predefined_and_numeric_references_are_text():
    report = smi_xml.parse(
        "<nvidia_smi_log><gpu id='0'><product_name>A &amp; &#66;</product_name></gpu></nvidia_smi_log>", "x"
    )
    assert report.gpus[0]["name"] == "A & B"


@pytest.mark.parametrize(
    ("name", "rc", "status", "line"),
    [
        ("failure-mismatch.txt", 18, "driver-library-mismatch", "Failed to initialize NVML: Driver/library"),
        ("failure-mismatch.txt", 255, "driver-library-mismatch", "Failed to initialize NVML"),
        ("failure-not-loaded.txt", 9, "driver-not-loaded", "NVIDIA-SMI has failed because"),
        ("failure-no-devices.txt", 6, "no-devices", "No devices were found"),
        ("failure-no-devices.txt", 0, "no-devices", "No devices were found"),
        ("failure-no-nvml.txt", 12, "cuda-unreported", "NVIDIA-SMI couldn't find libnvidia-ml.so"),
        ("banner-580.95.05-gb10.txt", 0, None, ""),
        ("banner-580.95.05-gb10.txt", 14, None, ""),
    ],
)
@pytest.mark.parametrize("stream", ["out", "err"])
def test_failure_by_its_words(name, rc, status, line, stream):
    texts = {"out": "", "err": "", stream: text_of(name)}
    found = smi.failure(Completed(("nvidia-smi",), rc, **texts))
    assert found[0] == status
    assert found[1].startswith(line)


@pytest.mark.parametrize(("rc", "status"), [(9, "driver-not-loaded"), (18, "driver-library-mismatch"), (2, None)])
def test_failure_by_its_exit_status_alone(rc, status):
    assert smi.failure(Completed(("nvidia-smi",), rc, "", "something new"))[0] == status


def test_banner_without_its_frame():
    """As people paste it: one space between the fields, or a line for each."""
    report = smi_text.banner("NVIDIA-SMI 580.95.05 Driver Version: 580.95.05 CUDA Version: 13.0", "x")
    assert (value(report.driver), value(report.cuda)) == ("580.95.05", "13.0")


@pytest.mark.parametrize(
    "cell",
    ["N/A", "ERR!", "Not Found", "Not Supported", "Deprecated", "", "13", "v13.0", "13.0x", "[N/A]", "1.2.3.4.5"],
)
def test_what_is_no_version(cell):
    line = f"| NVIDIA-SMI 580.95.05      Driver Version: 580.95.05      CUDA Version: {cell}     |"
    report = smi_text.banner(line, "x")
    assert report.cuda is None
    assert report.refused == line


@pytest.mark.parametrize(
    "text",
    [
        "| NVIDIA-SMI 590.44.01              CUDA Version: 13.1     |",
        "NVIDIA-SMI version  : 590.48.01\nNVML version        : 590.48\nCUDA Version        : 13.1\n",
        "====NVSMI LOG====\nCUDA Version : 13.1\nGPU 00000000:01:00.0\n    GSP Firmware Version : 580.1\n",
    ],
)
def test_the_version_of_the_tool_is_not_the_drivers(text):
    report = smi.parse(text, "x")
    assert report.driver is None
    assert value(report.cuda) == "13.1"


def test_the_new_field_wins_over_the_old_one():
    table = "CUDA Version : 13.2\nCUDA UMD Version : 13.3\nDriver Version : 1.1\nKMD Version : 610.62\n"
    report = smi_text.version_table(table, "x")
    assert (value(report.driver), value(report.cuda)) == ("610.62", "13.3")


def test_a_long_line_is_not_searched_to_its_end():
    line = "|   0  " + "x " * 1_000_000 + "Off |"
    assert smi_text.banner(line + "\n" + text_of("banner-580.95.05-gb10.txt"), "x").gpus[0]["name"] == "NVIDIA GB10"


def test_find_takes_a_path_or_looks_for_a_name(tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    assert smi.find(str(program)) == str(program)
    assert smi.find(str(tmp_path / "other")) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert smi.find("nvidia-smi") == str(program)


@pytest.mark.parametrize(
    "around",
    ["{}\nWARNING: infoROM is corrupted at gpu 0008:01:00.0\n", "WARNING: infoROM is corrupted\n{}", "\ufeff{}"],
)
def test_what_stands_around_the_xml_is_no_part_of_it(around):
    name = "qx-580.173.02-gb200.xml"
    report = smi.parse(around.format(text_of(name)), "nvidia-smi -q -x")
    assert value(report.cuda) == "13.0"
    assert len(report.gpus) == 4


def test_a_name_that_cannot_be_read_is_none():
    broken = text_of("banner-580.95.05-gb10.txt").replace("NVIDIA GB10", "ERR!       ")
    gpus = smi_text.banner(broken, "x").gpus
    assert [(gpu["index"], gpu["name"]) for gpu in gpus] == [(0, None)]
