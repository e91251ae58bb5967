"""What the Vulkan loader knows about the machine's GPUs, asked directly.

ggml hides software devices and tells neither driver nor limits. The numbers of the software devices are also what
`GGML_VK_VISIBLE_DEVICES` wants. Structure sizes and offsets are those of vulkan_core.h on 64-bit machines.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import struct
import sys
from dataclasses import dataclass
from functools import lru_cache

_TYPES = {0: "other", 1: "integrated", 2: "discrete", 3: "virtual", 4: "software"}
_APPLICATION, _INSTANCE, _PROPERTIES_2, _DRIVER = 0, 1, 1000059001, 1000196000
_API_1_2 = (1 << 22) | (2 << 12)
_PROPERTIES_SIZE = 824  # VkPhysicalDeviceProperties
_LIMITS_OFFSET = 296  # .limits in it


@dataclass(frozen=True)
class Adapter:
    """A Vulkan physical device: `kind` is "discrete", "integrated", "virtual", "software" or "other"."""

    name: str
    kind: str
    driver: str
    api: str
    max_storage_buffer: int
    max_workgroups_x: int
    max_allocations: int


def _library() -> ctypes.CDLL | None:
    names = {"win32": ["vulkan-1.dll"], "darwin": ["libvulkan.1.dylib", "libMoltenVK.dylib"]}
    for name in names.get(sys.platform, ["libvulkan.so.1"]):
        try:
            return ctypes.CDLL(name)
        except OSError:
            found = ctypes.util.find_library(name.split(".")[0].removeprefix("lib"))
            if found:
                try:
                    return ctypes.CDLL(found)
                except OSError:
                    continue
    return None


def _text(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode(errors="replace")


@lru_cache(maxsize=1)
def adapters() -> tuple[Adapter, ...]:
    """Every physical device in the loader's order; empty where there is no loader or no driver."""
    vk = _library()
    if vk is None:
        return ()
    application = ctypes.create_string_buffer(struct.pack("=Q2Q2Q2I", _APPLICATION, 0, 0, 0, 0, 0, _API_1_2))
    flags = 1 if sys.platform == "darwin" else 0  # enumerate MoltenVK, which is not fully conformant
    extensions = (ctypes.c_char_p * 1)(b"VK_KHR_portability_enumeration")
    info = ctypes.create_string_buffer(
        struct.pack(
            "=QQQQQQQQ", _INSTANCE, 0, flags, ctypes.addressof(application), 0, 0, flags, ctypes.addressof(extensions)
        )
    )
    instance = ctypes.c_void_p()
    if vk.vkCreateInstance(info, None, ctypes.byref(instance)) != 0:
        return ()
    try:
        count = ctypes.c_uint32()
        vk.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), None)
        handles = (ctypes.c_void_p * count.value)()
        vk.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), handles)
        return tuple(_describe(vk, handle) for handle in handles[: count.value] if handle)
    finally:
        vk.vkDestroyInstance(instance, None)


def _describe(vk: ctypes.CDLL, handle: int) -> Adapter:
    driver = ctypes.create_string_buffer(struct.pack("=QQ", _DRIVER, 0) + bytes(600))
    both = ctypes.create_string_buffer(
        struct.pack("=QQ", _PROPERTIES_2, ctypes.addressof(driver)) + bytes(_PROPERTIES_SIZE + 64)
    )
    vk.vkGetPhysicalDeviceProperties2(ctypes.c_void_p(handle), both)
    properties = both.raw[16 : 16 + _PROPERTIES_SIZE]
    api, _, _, _, kind = struct.unpack_from("=5I", properties)
    limits = properties[_LIMITS_OFFSET:]
    # VkPhysicalDeviceLimits: maxStorageBufferRange, maxMemoryAllocationCount, maxComputeWorkGroupCount[0]
    storage_range, allocations, workgroups = (struct.unpack_from("=I", limits, at)[0] for at in (28, 36, 220))
    name, about = _text(driver.raw[20 : 20 + 256]), _text(driver.raw[276 : 276 + 256])
    return Adapter(
        name=_text(properties[20 : 20 + 256]),
        kind=_TYPES.get(kind, "other"),
        driver=f"{name} {about}".strip(),
        api=f"{api >> 22 & 0x7F}.{api >> 12 & 0x3FF}.{api & 0xFFF}",
        max_storage_buffer=storage_range,
        max_workgroups_x=workgroups,
        max_allocations=allocations,
    )
