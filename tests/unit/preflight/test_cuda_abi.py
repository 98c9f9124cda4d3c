"""G1: CUDA 12 and 13 in one environment. G2: flash-attn. G7: NVFP4."""

import shutil

import pytest
from elf.builder import Elf


class TestCudaAbi:
    def test_a_staged_environment_passes(self, look_into):
        found = look_into("G1")
        assert found.status == "PASS"
        assert "torch 2.11.0+cu130 is for CUDA 13" in found.detail

    def test_a_cpu_torch_is_a_failure_not_a_skip(self, look_into, staged):
        (staged.site / "torch/version.py").write_text("__version__ = '2.10.0+cpu'\ncuda = None\n")
        assert look_into("G1").status == "FAIL"

    def test_without_torch_there_is_nothing_to_hold_against(self, look_into, staged):
        (staged.site / "torch").rename(staged.site / "away")
        assert look_into("G1").status == "SKIP"

    @pytest.mark.parametrize(
        "soname", ["libcudart.so.12", "libcublas.so.12", "libnvrtc.so.12", "libnppicc.so.12", "libcudart.so.11.0"]
    )
    def test_an_extension_for_another_cuda_is_named_with_what_it_needs(self, look_into, staged, soname):
        Elf(needed=[soname, "libc10.so"]).write(staged.site / "vllm/_C.abi3.so")
        found = look_into("G1")
        assert found.status == "FAIL"
        major = soname.split(".so.")[1].split(".")[0]
        assert f"site-packages/vllm/_C.abi3.so` needs `{soname}`, of CUDA {major}" in found.detail
        assert "never link" in found.hint

    @pytest.mark.parametrize("soname", ["libcufft.so.11", "libcusolver.so.11", "libnvToolsExt.so.1"])
    def test_a_library_of_cuda_12_with_a_number_of_its_own(self, look_into, staged, soname):
        Elf(needed=[soname, "libc10.so"]).write(staged.site / "x/y.abi3.so")
        found = look_into("G1")
        assert (found.status, f"needs `{soname}`, of CUDA 12" in found.detail) == ("FAIL", True), found.detail

    @pytest.mark.parametrize(
        "soname",
        [
            "libcufft.so.12",
            "libcusparse.so.12",
            "libcusolver.so.12",
            "libcurand.so.10",
            "libcudart.so.13",
            "libnccl.so.2",
        ],
    )
    def test_sonames_that_do_not_follow_the_toolkit(self, look_into, staged, soname):
        Elf(needed=[soname]).write(staged.site / "pkg/x.so")
        assert look_into("G1").status == "PASS"

    def test_both_runtimes_are_there(self, look_into, staged):
        Elf(soname="libcudart.so.12").write(staged.site / "nvidia/cuda_runtime/lib/libcudart.so.12")
        Elf(needed=["libcudart.so.12"]).write(staged.site / "vllm/_C.abi3.so")
        found = look_into("G1")
        assert (found.status, "both are installed" in found.detail) == ("WARN", True)

    def test_a_bundled_library_under_another_majors_name_is_no_need(self, look_into, staged):
        Elf(soname="libcupti.so.12").write(staged.site / "triton/backends/nvidia/lib/cupti/libcupti.so.12")
        assert look_into("G1").status == "PASS"

    @pytest.mark.parametrize(
        "name",
        ["bitsandbytes/libbitsandbytes_cuda{}.so", "nixl_cu{}/_bindings.cpython-312-aarch64-linux-gnu.so"],
    )
    def test_a_package_that_brings_a_file_for_each_cuda(self, look_into, staged, name):
        """It loads the one for torch's CUDA; where it brings none of that, it can't be used."""
        for cuda, runtime in (("118", "11.0"), ("124", "12"), ("12", "12"), ("130", "13"), ("13", "13")):
            needed = [f"libcudart.so.{runtime}", f"libcublas.so.{runtime.partition('.')[0]}"]
            Elf(needed=needed).write(staged.site / name.format(cuda))
        link = staged.base / "envs/cu130"
        link.parent.mkdir()
        link.symlink_to(staged.env)
        assert look_into("G1").status == look_into("G1", env=str(link)).status == "PASS"
        for cuda in ("130", "13"):
            (staged.site / name.format(cuda)).unlink()
        assert look_into("G1").status == look_into("G1", env=str(link)).status == "FAIL"

    @pytest.mark.parametrize("library", ["nccl", "cudnn", "cusparselt", "nvshmem"])
    def test_two_packages_that_write_the_same_file(self, look_into, staged, library):
        staged.package(f"nvidia-{library}-cu13", "2.28.9")
        assert look_into("G1").status == "PASS"
        staged.package(f"nvidia-{library}-cu12", "2.27.3")
        found = look_into("G1")
        assert found.status == "FAIL"
        assert f"nvidia-{library}-cu12 2.27.3 overwrites the library of nvidia-{library}-cu13 2.28.9" in found.detail

    def test_a_package_for_another_cuda_that_has_a_folder_of_its_own(self, look_into, staged):
        staged.package("nvidia-cuda-runtime-cu12", "12.8.90")
        assert look_into("G1").status == "WARN"

    @pytest.mark.parametrize(
        ("name", "version", "status"),
        [
            ("nvidia-cuda-runtime", "13.0.96", "PASS"),
            ("nvidia-cufft", "12.0.0.61", "PASS"),
            ("nvidia-cuda-runtime", "14.0.1", "WARN"),
            ("cuda-toolkit", "14.0", "WARN"),
            ("nvidia-cuda-runtime", "0.0.1.dev5", "PASS"),
        ],
    )
    def test_packages_that_have_no_cuda_in_their_names(self, look_into, staged, name, version, status):
        """From CUDA 13 on; cuFFT, cuSOLVER and cuSPARSE have versions of their own, and 0.0.1 are empty."""
        staged.package(name, version)
        found = look_into("G1")
        assert (found.status, f"{name} {version}" in found.detail) == (status, status == "WARN"), found.detail


class TestFlashAttention:
    @pytest.fixture
    def install(self, staged):
        def call(
            version,
            module="flash_attn_2_cuda.cpython-312-aarch64-linux-gnu.so",
            needed=("libtorch_python.so",),
            undefined=(),
        ):
            staged.package("flash-attn", version)
            (staged.site / module).parent.mkdir(exist_ok=True)
            Elf(needed=[*needed, "libc.so.6"], undefined=list(undefined)).write(staged.site / module)

        return call

    def test_absent_is_no_fault(self, look_into):
        found = look_into("G2")
        assert (found.status, "not installed" in found.detail) == ("INFO", True)

    def test_one_that_fits(self, look_into, install):
        install("2.8.3+cu130torch2.11", undefined=["torch_from_torch_cpu"])
        found = look_into("G2")
        assert found.status == "PASS", found.detail

    @pytest.mark.parametrize(
        ("options", "word"),
        [
            ({"version": "2.8.3+cu130torch2.10"}, "built for torch 2.10, here is 2.11.0+cu130"),
            ({"version": "2.8.3+cu12torch2.11cxx11abitrue"}, "built for CUDA 12, here is 13.0"),
            ({"version": "2.8.3+pt2.10cu130"}, "built for torch 2.10, here is 2.11.0+cu130"),
            ({"version": "2.8.3+torch2.11.cu128"}, "built for CUDA 12, here is 13.0"),
            ({"version": "2.8.3", "module": "flash_attn/x.so"}, "without its extension module `flash_attn_2_cuda`"),
            (
                {"version": "2.8.3", "module": "flash_attn_2_cuda.cpython-311-aarch64-linux-gnu.so"},
                "for Python 3.11, here is 3.12",
            ),
            ({"version": "2.8.3", "needed": ("libcudart.so.12",)}, "needs `libcudart.so.12`, not found"),
            (
                {"version": "2.8.3", "undefined": ("_ZNK3c1010TensorImpl28materialize_cow_storageEv",)},
                "built for another torch: `flash_attn_2_cuda.cpython-312-aarch64-linux-gnu.so` lacks `_ZNK3c10",
            ),
        ],
    )
    def test_one_for_another_torch_cuda_or_python(self, look_into, install, options, word):
        install(**options)
        found = look_into("G2")
        assert (found.status, word in found.detail) == ("FAIL", True), found.detail

    def test_an_editable_one_is_not_judged_by_files_that_lie_elsewhere(self, look_into, staged):
        staged.package("flash-attn", "2.8.3")
        (next(staged.site.glob("flash_attn-*.dist-info")) / "direct_url.json").write_text(
            '{"dir_info": {"editable": true}}'
        )
        found = look_into("G2")
        assert (found.status, "is an editable installation" in found.detail) == ("SKIP", True)

    @pytest.mark.parametrize("module", ["flash_attn_3/_C.abi3.so", "flash_attn_3_cuda.abi3.so"])
    def test_the_third(self, look_into, staged, module):
        staged.package("flash-attn-3", "3.0.0b1")
        (staged.site / module).parent.mkdir(exist_ok=True)
        Elf(needed=["libtorch_python.so", "libc.so.6"]).write(staged.site / module)
        assert look_into("G2").status == "PASS"

    def test_files_without_metadata_are_judged_too(self, look_into, install, staged):
        install("2.8.3", undefined=["_ZNK3c1010TensorImpl28materialize_cow_storageEv"])
        shutil.rmtree(next(staged.site.glob("flash_attn-*.dist-info")))
        found = look_into("G2")
        assert (found.status, "flash-attn without its metadata can't load" in found.detail) == ("FAIL", True)

    def test_unsloth_overrides_a_broken_one(self, look_into, install, staged):
        install("2.8.3+cu130torch2.10")
        staged.package("unsloth", "2026.9.1")
        found = look_into("G2")
        assert found.status == "INFO"
        assert "unsloth 2026.9.1 says that it seems to be broken and uses xformers" in found.detail

    def test_not_judged_with_a_cpu_torch(self, look_into, install, staged):
        install("2.8.3")
        (staged.site / "torch/version.py").write_text("__version__ = '2.10.0+cpu'\ncuda = None\n")
        assert look_into("G2").status == "SKIP"


class TestNvfp4:
    PTXAS = """#!/bin/sh
for word; do case $word in sm_*) target=$word;; esac; done
case $target in {known}) exit 0;; esac
echo "ptxas fatal   : Value '$target' is not defined for option 'gpu-name'" >&2
exit 255
"""

    @pytest.fixture
    def ptxas(self, staged):
        """Plant Triton's assembler, which says what the real one said (triton 3.6.0, run on aarch64)."""

        def call(known, name="ptxas-blackwell"):
            path = staged.site / "triton/backends/nvidia/bin" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.PTXAS.format(known=known))
            path.chmod(0o755)
            return path

        return call

    def test_without_a_gpu(self, look_into):
        assert look_into("G7").status == "SKIP"

    def test_a_gpu_without_fp4(self, look_into, host):
        host.spark(capability="9.0")
        assert "(9.0) has no FP4" in look_into("G7").detail

    @pytest.mark.parametrize(("capability", "target"), [("12.1", "sm_121a"), ("10.0", "sm_100a"), ("10.3", "sm_103a")])
    def test_the_assembler_that_triton_would_use_knows_the_gpu(self, look_into, host, ptxas, capability, target):
        host.spark(capability=capability)
        ptxas(target)
        ptxas("sm_90a", "ptxas")
        found = look_into("G7")
        assert found.status == "PASS", found.detail
        assert f"`ptxas-blackwell` of triton knows {target}" in found.detail

    def test_an_assembler_that_does_not(self, look_into, host, ptxas):
        host.spark()
        ptxas("sm_90a|sm_100a", "ptxas")
        found = look_into("G7")
        assert found.status == "WARN"
        assert "ptxas fatal : Value 'sm_121a' is not defined for option 'gpu-name'" in found.detail
        assert "TRITON_PTXAS_PATH" in found.hint

    def test_the_override_is_what_counts(self, look_into, host, ptxas, tmp_path):
        host.spark()
        ptxas("sm_90a")
        other = tmp_path / "ptxas"
        other.write_text(self.PTXAS.format(known="sm_121a"))
        other.chmod(0o755)
        assert look_into("G7", {"TRITON_PTXAS_BLACKWELL_PATH": str(other)}).status == "PASS"

    def test_a_build_of_no_index_is_not_said_to_have_kernels(self, look_into, host, staged):
        host.spark()
        (staged.site / "torch/version.py").write_text("__version__ = '2.10.0a0+b558c98.nv25.11'\ncuda = '13.0'\n")
        found = look_into("G7")
        assert (found.status, "which kernels torch 2.10.0a0+b558c98.nv25.11 has is not known" in found.detail) == (
            "PASS",
            True,
        )

    def test_without_torch(self, look_into, host, staged):
        host.spark()
        shutil.rmtree(staged.site / "torch")
        shutil.rmtree(staged.site / "torch-2.11.0.dist-info")
        assert look_into("G7").status == "SKIP"

    def test_a_build_without_kernels(self, look_into, host, staged):
        host.spark()
        (staged.site / "torch/version.py").write_text("__version__ = '2.11.0+cu126'\ncuda = '12.6'\n")
        assert look_into("G7").status == "FAIL"
