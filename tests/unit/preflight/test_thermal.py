"""G4: what nvidia-smi and NVML say of heat, power and clocks, and what a sample under load shows."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from ansible.module_utils.armstage.preflight import thermal
from ansible.module_utils.armstage.preflight.sensors import OLD_COLUMNS, parse_smi

from .hosts import IDLE, STUCK, UNDER_LOAD

ROOT = Path(__file__).resolve().parents[3]
ONCE = "0, 48, 14.21, 2405, 3003, 0, 0x0000000000000001, 173453251, 0, 0"
"""ollama/ollama#13552: no reason is active, and it was slowed down for 173 s since the driver was loaded."""


class TestReadings:
    def test_a_gb10(self):
        (found,) = parse_smi(ONCE)
        assert (found.celsius, found.watts, found.sm_mhz, found.max_sm_mhz, found.utilisation) == (
            48,
            14.21,
            2405,
            3003,
            0,
        )
        assert (found.reasons, found.sw_thermal, found.hw_thermal) == (1, 173.453251, 0)

    def test_what_is_not_there_is_none_not_zero(self):
        (found,) = parse_smi("0, [N/A], [Not Supported], 2405, [N/A], [N/A], [N/A], [N/A], 0, 0")
        assert (found.celsius, found.watts, found.utilisation, found.reasons, found.sw_thermal) == (None,) * 5

    @pytest.mark.parametrize("form", ["14.21 W", "14.21W", " 14.21"])
    def test_units_that_were_not_asked_for(self, form):
        (found,) = parse_smi(f"0, 48 C, {form}, 2405 MHz, 3003 MHz, 0 %, 0x01, 1000000 us, 0 us, [N/A]")
        assert (found.celsius, found.watts, found.sm_mhz, found.utilisation) == (48, 14.21, 2405, 0)
        assert (found.reasons, found.sw_thermal, found.hw_power_brake) == (1, 1, None)

    @pytest.mark.parametrize("cell", ["nan", "inf", "[Unknown Error]", "Active", "N/A", "", "1 2"])
    def test_what_is_no_number(self, cell):
        (found,) = parse_smi(f"0, {cell}, {cell}, 2405, 3003, {cell}, {cell}, {cell}, 0, 0")
        assert (found.celsius, found.watts, found.utilisation, found.reasons, found.sw_thermal) == (None,) * 5

    def test_several_gpus_and_lines_that_are_none(self):
        text = f'{IDLE}\n1{IDLE[1:]}\n\nField "clocks_event_reasons.active" is not a valid field to query.\n2, 3\n'
        assert [each.gpu for each in parse_smi(text)] == [0, 1]

    def test_an_old_nvidia_smi(self):
        (found,) = parse_smi("0, 48, 14.21, 2405, 3003, 0, 0x0000000000000004", OLD_COLUMNS)
        assert (found.reasons, found.sw_thermal) == (4, None)


class TestNow:
    def test_without_a_gpu(self, host):
        assert host.look("G4").status == "SKIP"

    def test_an_idle_gpu_passes_and_that_proves_little(self, spark):
        found = spark.look("G4")
        assert found.status == "PASS"
        assert found.detail.startswith(
            "48 C, 14 W, SM clock 2405 MHz, 0 % busy; an idle moment proves nothing about load"
        )
        assert found.source == "nvidia-smi"

    @pytest.mark.parametrize(("reasons", "status"), [("0x0", "PASS"), ("0x4", "PASS"), ("[N/A]", "SKIP")])
    def test_without_counters_the_reasons_decide(self, host, reasons, status):
        found = host.spark(sensors=f"0, 48, 14.2, 2405, 3003, 0, {reasons}, [N/A], [N/A], [N/A]").look("G4")
        assert found.status == status
        assert "48 C" in found.detail

    def test_a_driver_without_sensors(self, host):
        host.spark(sensors="0, [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A]")
        found = host.look("G4")
        assert found.status == "SKIP"
        assert found.detail.startswith("neither the reasons for a lower clock nor the times of slowdown are reported")
        assert "proves nothing" not in found.detail
        host.spark(sensors="Field is not a valid field to query.")
        assert host.look("G4").status == "SKIP"

    @pytest.mark.parametrize(
        ("sensors", "status", "word"),
        [
            (ONCE, "WARN", "GPU 0 had 173.5 s of software thermal slowdown since the driver was loaded"),
            ("0, 91, 60, 2100, 3003, 96, 0x0000000000000020, 0, 0, 0", "WARN", "slowed down by its temperature"),
            (
                "0, 99, 60, 900, 3003, 96, 0x0000000000000048, 0, 0, 0",
                "FAIL",
                "hardware slowdown, hardware thermal slowdown",
            ),
            ("0, 60, 60, 900, 3003, 96, 0x0000000000000080, 0, 0, 0", "FAIL", "hardware power brake"),
            ("0, 84, 58, 2470, 3003, 96, 0x0000000000000004, 0, 0, 0", "PASS", "84 C"),
            (STUCK, "PASS", "SM clock 611 MHz"),
        ],
    )
    def test_reasons_and_counters(self, host, sensors, status, word):
        found = host.spark(sensors=sensors).look("G4")
        assert (found.status, word in found.detail) == (status, True), found.detail


class TestSampled:
    def judge(self, *lines, platform="spark", times=10):
        samples = [sample for _ in range(times) for line in lines for sample in parse_smi(line)]
        return thermal.judge(samples, platform, 600, "nvidia-smi")

    def test_a_healthy_spark_under_load(self):
        found = self.judge(UNDER_LOAD)
        assert found.status == "PASS"
        assert found.detail == "10 of 10 samples in 600 s under load, up to 84 C, SM clock 2424 to 2424 MHz, 58 W"

    def test_a_latched_power_supply_shows_no_reason(self):
        found = self.judge(STUCK)
        assert found.status == "FAIL"
        assert found.detail.startswith("GPU 0 runs at 611 MHz under load, at 15 W; usual are 2171 to 2489 MHz")
        assert "AC power" in found.hint

    def test_it_is_not_a_matter_of_watts(self):
        assert self.judge("0, 51, 70.0, 721, 3003, 95, 0x0, 0, 0, 0").status == "FAIL"

    def test_a_deadlock_is_busy_and_draws_little(self):
        found = self.judge("0, 51, 22.0, 2405, 3003, 96, 0x0, 0, 0, 0")
        assert found.status == "WARN"
        assert "96 % busy at 22 W" in found.detail

    def test_an_idle_gpu_is_not_judged(self):
        found = self.judge(IDLE)
        assert found.status == "SKIP"
        assert "nothing is proven" in found.detail

    def test_a_busy_moment_is_not_called_idle(self, spark):
        found = spark.spark(sensors="0, 51, 15.02, 2424, 3003, 95, 0x0000000000000000, 0, 0, 0").look("G4")
        assert (found.status, "one moment proves little about load: --sample" in found.detail) == ("PASS", True)

    def test_idle_samples_do_not_hide_the_busy_ones(self):
        assert self.judge(IDLE, STUCK, IDLE).status == "FAIL"

    def test_the_floor_is_a_sparks(self):
        assert self.judge(STUCK, platform="grace-blackwell").status == "PASS"

    def test_slowdown_during_the_sample_is_told_apart(self):
        first, last = ONCE, ONCE.replace("173453251", "178453251").replace(" 0, 0x", " 96, 0x")
        samples = [*parse_smi(first), *parse_smi(last)]
        found = thermal.judge(samples, "spark", 60, "nvidia-smi")
        assert (
            "178.5 s of software thermal slowdown since the driver was loaded, 5.0 s of it in these 60 s"
            in found.detail
        )

    def test_every_gpu_is_judged(self):
        found = self.judge(UNDER_LOAD, "1" + STUCK[1:])
        assert found.detail.startswith("GPU 1 runs at 611 MHz")
        assert [each["gpu"] for each in found.data["samples"]] == [0, 1]

    def test_what_is_kept_for_the_plot_is_bounded(self):
        (series,) = self.judge(UNDER_LOAD, times=3600).data["samples"]
        assert len(series["at"]) == len(series["celsius"]) <= thermal.MOST_POINTS

    def test_sampling_takes_the_time_it_was_given(self, spark, monkeypatch):
        monkeypatch.setattr(thermal, "EVERY", 0.2)
        spark.answer("--query-gpu=index,temperature*", UNDER_LOAD)
        found = spark.look("G4", sample=1)
        assert found.data["seconds"] == 1
        (series,) = found.data["samples"]
        assert 3 <= len(series["at"]) <= 8
        assert series["at"][-1] >= 0.9


def test_nvml_is_asked_first(tmp_path):
    """The stand-in for libnvidia-ml, loaded in a process of its own, since its path is read when one starts."""
    stubs = tmp_path / "lib"
    subprocess.run([sys.executable, ROOT / "tests/lab/stubs/build.py", stubs, "gcc"], check=True, timeout=120)
    answers = tmp_path / "answers"
    answers.write_text(
        "driver 580.95.05\ncuda 13000\n"
        "gpu NVIDIA GB10|GPU-6f1e|0000000F:01:00.0|-|12.1|-\n"
        "sensor 48|14210|2405|3003|0|1|173453251000|0|0\n"
    )
    program = textwrap.dedent(
        """
        import json, sys
        sys.path.insert(0, sys.argv[1])
        from armstage.preflight.sensors import reader
        read, source = reader("nvidia-smi", 5, True)
        print(source, read()[0])
        """
    )
    environ = {**os.environ, "LD_LIBRARY_PATH": str(stubs), "ARMSTAGE_STUB": str(answers)}
    done = subprocess.run(
        [sys.executable, "-c", program, str(ROOT / "module_utils")],
        capture_output=True,
        text=True,
        env=environ,
        timeout=60,
    )
    assert done.stdout.strip() == (
        "NVML Sample(gpu=0, at=0.0, celsius=48.0, watts=14.21, sm_mhz=2405.0, max_sm_mhz=3003.0, utilisation=0.0,"
        " reasons=1, sw_thermal=173.453251, hw_thermal=0.0, hw_power_brake=0.0)"
    ), done.stderr
