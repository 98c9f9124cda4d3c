"""What the NVIDIA driver of this host says, and which source said it.

kernel     /sys/module/nvidia and /proc/driver/nvidia: the loaded module
libraries  libcuda and NVML through ctypes, asked in a child process (probe)
smi        nvidia-smi, asked last: it needs about a second a run
driver     all of them, merged into one set of facts
"""
