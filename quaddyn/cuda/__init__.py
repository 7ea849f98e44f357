"""Memory and kernels of NVIDIA GPUs through the CUDA driver library, without a toolkit.

`CudaArray` is an array in the memory of a GPU that other libraries read by ``__cuda_array_interface__`` and DLPack;
`to_device` copies NumPy arrays there.  `driver` loads the library of the installed driver when it is first used.
Operations for arrays on a GPU are compiled by ``quaddyn.compile(..., device="cuda")``.
"""

from .arrays import CudaArray, to_device
from .driver import CudaError

__all__ = ["CudaArray", "CudaError", "to_device"]
