"""CUDA driver library, loaded by ctypes when it is first used: devices, memory, streams and kernels."""

from __future__ import annotations

import ctypes
import functools
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from ..errors import ArgumentError, QuaddynError

#: File names of the driver library.
LIBRARIES: list[str] = ["libcuda.so.1", "libcuda.so"]
#: Oldest supported version of CUDA of the driver, and compute capability of the GPU: those of the generated PTX.
MIN_DRIVER_VERSION: Final = 11000
MIN_COMPUTE_CAPABILITY: Final = (7, 5)

_SUCCESS, _INVALID_VALUE, _OUT_OF_MEMORY, _NO_DEVICE = 0, 1, 2, 100
_MULTIPROCESSORS, _MAJOR, _MINOR = 16, 75, 76  # device attributes
_DEVICE_ORDINAL = 9  # pointer attribute
_ERROR_LOG, _ERROR_LOG_SIZE = 5, 6  # options of the compiler in the driver
_LOG_SIZE = 4096

_INT, _SIZE, _POINTER, _TEXT = ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_char_p
_OUT = ctypes.POINTER
_UINT = ctypes.c_uint
#: Argument types of the functions used.
_FUNCTIONS: Final[dict[str, tuple[Any, ...]]] = {
    "cuInit": (_UINT,),
    "cuDriverGetVersion": (_OUT(_INT),),
    "cuGetErrorName": (_INT, _OUT(_TEXT)),
    "cuGetErrorString": (_INT, _OUT(_TEXT)),
    "cuDeviceGetCount": (_OUT(_INT),),
    "cuDeviceGet": (_OUT(_INT), _INT),
    "cuDeviceGetName": (_TEXT, _INT, _INT),
    "cuDeviceGetAttribute": (_OUT(_INT), _INT, _INT),
    "cuDevicePrimaryCtxRetain": (_OUT(_POINTER), _INT),
    "cuCtxPushCurrent_v2": (_POINTER,),
    "cuCtxPopCurrent_v2": (_OUT(_POINTER),),
    "cuModuleLoadDataEx": (_OUT(_POINTER), _POINTER, _UINT, _OUT(_INT), _OUT(_POINTER)),
    "cuModuleUnload": (_POINTER,),
    "cuModuleGetFunction": (_OUT(_POINTER), _POINTER, _TEXT),
    "cuFuncGetAttribute": (_OUT(_INT), _INT, _POINTER),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (_OUT(_INT), _POINTER, _INT, _SIZE),
    "cuLaunchKernel": (_POINTER, *[_UINT] * 7, _POINTER, _OUT(_POINTER), _OUT(_POINTER)),
    "cuMemAlloc_v2": (_OUT(_POINTER), _SIZE),
    "cuMemFree_v2": (_POINTER,),
    "cuMemcpyHtoD_v2": (_POINTER, _POINTER, _SIZE),
    "cuMemcpyDtoH_v2": (_POINTER, _POINTER, _SIZE),
    "cuPointerGetAttribute": (_POINTER, _INT, _POINTER),
    "cuStreamSynchronize": (_POINTER,),
    "cuStreamWaitEvent": (_POINTER, _POINTER, _UINT),
    "cuEventCreate": (_OUT(_POINTER), _UINT),
    "cuEventRecord": (_POINTER, _POINTER),
    "cuEventElapsedTime": (_OUT(ctypes.c_float), _POINTER, _POINTER),
    "cuEventDestroy_v2": (_POINTER,),
}


class CudaError(QuaddynError, RuntimeError):
    """Error raised if the driver, the GPU or its memory cannot be used; the message states the reason."""


class Driver:
    """The driver library, after its initialization."""

    def __init__(self, library: Any) -> None:
        self.library = library
        for name, types in _FUNCTIONS.items():
            try:
                getattr(library, name).argtypes = types
            except AttributeError:
                raise CudaError(f"device: the NVIDIA driver has no function {name}; install a newer driver") from None
        version = _INT()
        self.call("cuDriverGetVersion", ctypes.byref(version))
        if version.value < MIN_DRIVER_VERSION:
            raise CudaError(
                f"device: the NVIDIA driver supports CUDA {_version(version.value)}, and "
                f"{_version(MIN_DRIVER_VERSION)} is required; install a newer driver"
            )
        self.version = version.value
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function of the library.

        Raises:
            CudaError: the function reports an error.
        """
        status = getattr(self.library, name)(*arguments)
        if status == _OUT_OF_MEMORY:
            raise CudaError(f"the memory of the GPU is exhausted ({name}); pass fewer states, or free arrays")
        if status == _NO_DEVICE:
            raise CudaError("device: the NVIDIA driver finds no GPU; check nvidia-smi and CUDA_VISIBLE_DEVICES")
        if status != _SUCCESS:
            texts = []
            for function in ("cuGetErrorName", "cuGetErrorString"):
                text = _TEXT()
                getattr(self.library, function)(status, ctypes.byref(text))
                texts.append((text.value or b"?").decode())
            raise CudaError(f"{name} of the NVIDIA driver failed: {': '.join(texts)}")


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


@functools.cache
def driver() -> Driver:
    """Returns the driver, whose library is loaded at the first call.

    Raises:
        CudaError: there is no driver, or it is too old, or it finds no GPU.
    """
    for name in LIBRARIES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        return Driver(library)
    raise CudaError(
        f"device: there is no NVIDIA driver on this machine ({LIBRARIES[0]} cannot be loaded); use device='cpu'"
    )


class Device:
    """A GPU and its primary context, which other libraries use as well.

    Args:
        index: number of the GPU among those that the driver finds.

    Attributes:
        index: number of the GPU.
        name: its name.
        compute_capability: (major, minor).
        multiprocessors: number of its multiprocessors.

    Raises:
        CudaError: no such GPU, or one that is too old.
    """

    def __init__(self, index: int) -> None:
        self.index, self._driver = index, driver()
        count, handle, self._context = _INT(), _INT(), _POINTER()
        self._driver.call("cuDeviceGetCount", ctypes.byref(count))
        if index >= count.value:
            raise ArgumentError(f"device: 'cuda:{index}' does not exist; the driver finds {count.value} GPUs")
        self._driver.call("cuDeviceGet", ctypes.byref(handle), index)
        name, values = ctypes.create_string_buffer(256), []
        self._driver.call("cuDeviceGetName", name, len(name), handle)
        for attribute in (_MAJOR, _MINOR, _MULTIPROCESSORS):
            value = _INT()
            self._driver.call("cuDeviceGetAttribute", ctypes.byref(value), attribute, handle)
            values.append(value.value)
        self.name, self.compute_capability = name.value.decode(), (values[0], values[1])
        self.multiprocessors = values[2]
        if self.compute_capability < MIN_COMPUTE_CAPABILITY:
            have, need = (".".join(map(str, x)) for x in (self.compute_capability, MIN_COMPUTE_CAPABILITY))
            raise CudaError(
                f"device: {self.name} has compute capability {have}, and {need} is required; use device='cpu'"
            )
        self._driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), handle)

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function of the driver in the context of this GPU."""
        with self.current():
            self._driver.call(name, *arguments)

    @contextmanager
    def current(self) -> Iterator[None]:
        """Makes the context of this GPU that of the thread."""
        self._driver.call("cuCtxPushCurrent_v2", self._context)
        try:
            yield
        finally:
            self._driver.call("cuCtxPopCurrent_v2", ctypes.byref(_POINTER()))

    def allocate(self, size: int) -> int:
        """Returns the address of new memory of this size [bytes], which `free` returns to the driver."""
        address = _POINTER()
        self.call("cuMemAlloc_v2", ctypes.byref(address), max(size, 1))
        return int(address.value or 0)

    def free(self, address: int) -> None:
        """Waits for all work of the GPU and frees memory."""
        self.call("cuMemFree_v2", address)

    def owns(self, address: int) -> bool:
        """Returns whether an address belongs to the memory of this GPU."""
        ordinal = _INT(-1)
        with self.current():
            get = self._driver.library.cuPointerGetAttribute
            status = get(ctypes.byref(ordinal), _DEVICE_ORDINAL, address)
        return status == _SUCCESS and ordinal.value == self.index

    def synchronize(self, stream: int) -> None:
        """Waits for all work of a stream."""
        self.call("cuStreamSynchronize", stream)

    def order_streams(self, first: int, then: int) -> None:
        """Lets later work of the stream `then` wait for the present work of the stream `first`."""
        if first == then:
            return
        with self.current(), self.event(timed=False) as event:
            self._driver.call("cuEventRecord", event, first)
            self._driver.call("cuStreamWaitEvent", then, event, 0)

    @contextmanager
    def event(self, *, timed: bool) -> Iterator[Any]:
        """Returns an event, valid within the block."""
        event = _POINTER()
        self.call("cuEventCreate", ctypes.byref(event), 0 if timed else 2)
        try:
            yield event
        finally:
            self.call("cuEventDestroy_v2", event)

    def elapsed_time(self, start: Any, end: Any) -> float:
        """Returns the time between two recorded events, of which the second has occurred [s]."""
        value = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.byref(value), start, end)
        return value.value * 1e-3


_devices: dict[int, Device] = {}
_devices_lock = threading.Lock()


def device(index: int) -> Device:
    """Returns a GPU; its context is created at the first call.

    Raises:
        CudaError: there is no driver or GPU that can be used.
        ArgumentError: no such GPU.
    """
    with _devices_lock:
        if index not in _devices:
            _devices[index] = Device(index)
        return _devices[index]


def parse_device(name: object) -> int | None:
    """Returns the number of the GPU of "cuda" or "cuda:1"; None for "cpu".

    Raises:
        ArgumentError: another name.
    """
    if name == "cpu":
        return None
    text = name if isinstance(name, str) else ""
    kind, _, index = text.partition(":")
    if kind != "cuda" or not (text == "cuda" or (index.isascii() and index.isdigit())):
        raise ArgumentError(f"device: expected 'cpu', 'cuda' or 'cuda:N', got {name!r}")
    return int(index or 0)


class LoadedKernel:
    """A kernel on a GPU, compiled by the driver from PTX.

    The driver caches compiled kernels in the home folder of the user: it compiles each one once for each kind of GPU.

    Args:
        device: the GPU.
        ptx: the module.
        name: name of the kernel in it.

    Attributes:
        registers: registers of a thread.
        local_bytes: memory of a thread for values that do not fit into registers [bytes].

    Raises:
        CudaError: the driver rejects the module.
    """

    def __init__(self, device: Device, ptx: bytes, name: str) -> None:
        self.device, call = device, device.call
        module, self._function = _POINTER(), _POINTER()
        log = ctypes.create_string_buffer(_LOG_SIZE)
        options = (_INT * 2)(_ERROR_LOG, _ERROR_LOG_SIZE)
        values = (_POINTER * 2)(ctypes.addressof(log), _LOG_SIZE)
        try:
            call("cuModuleLoadDataEx", ctypes.byref(module), ctypes.c_char_p(ptx), 2, options, values)
        except CudaError as error:
            detail = log.value.decode(errors="replace").strip()
            raise CudaError(f"{error}{f' ({detail})' if detail else ''}") from None
        weakref.finalize(self, _unload, device, module).atexit = False
        call("cuModuleGetFunction", ctypes.byref(self._function), module, name.encode())
        values_found = []
        for attribute in (4, 3):
            value = _INT()
            call("cuFuncGetAttribute", ctypes.byref(value), attribute, self._function)
            values_found.append(value.value)
        self.registers, self.local_bytes = values_found

    def resident_blocks(self, threads: int) -> int:
        """Returns how many blocks of this number of threads run on the GPU at the same time, at least 1."""
        value = _INT()
        self.device.call("cuOccupancyMaxActiveBlocksPerMultiprocessor", ctypes.byref(value), self._function, threads, 0)
        return max(1, value.value * self.device.multiprocessors)

    def launch(self, blocks: int, threads: int, stream: int, arguments: Sequence[int]) -> None:
        """Starts the kernel with integers of 64 bits as arguments on a stream, and returns at once."""
        values = (ctypes.c_uint64 * len(arguments))(*arguments)
        start = ctypes.addressof(values)
        pointers = (_POINTER * len(arguments))(*(start + 8 * k for k in range(len(arguments))))
        self.device.call("cuLaunchKernel", self._function, blocks, 1, 1, threads, 1, 1, 0, stream, pointers, None)


def _unload(device: Device, module: Any) -> None:
    device.call("cuModuleUnload", module)
