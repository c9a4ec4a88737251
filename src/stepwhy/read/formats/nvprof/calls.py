"""Names of the functions of the CUDA API by CUPTI's numbers, where the name decides the kind.

Source: `cupti_runtime_cbid.h` and `cupti_driver_cbid.h` of the CUDA toolkit; numbers never change.
"""

from __future__ import annotations

# A line is the number of its first function, and the names from there on, without their prefix.
# Functions that allocate, query or set up are left out. A name occurs twice if there is a version
# for per-thread default streams.
_RUNTIME = """
3 GetDeviceCount GetDeviceProperties
8 ConfigureCall SetupArgument GetLastError PeekAtLastError
13 Launch FuncSetCacheConfig FuncGetAttributes SetDevice GetDevice
20 Malloc MallocPitch Free MallocArray FreeArray MallocHost FreeHost HostAlloc
31 Memcpy Memcpy2D MemcpyToArray Memcpy2DToArray MemcpyFromArray Memcpy2DFromArray
37 MemcpyArrayToArray Memcpy2DArrayToArray MemcpyToSymbol MemcpyFromSymbol MemcpyAsync
42 MemcpyToArrayAsync MemcpyFromArrayAsync Memcpy2DAsync Memcpy2DToArrayAsync
46 Memcpy2DFromArrayAsync MemcpyToSymbolAsync MemcpyFromSymbolAsync Memset Memset2D MemsetAsync
52 Memset2DAsync
126 ThreadSynchronize
129 StreamCreate StreamDestroy StreamSynchronize StreamQuery EventCreate EventCreateWithFlags
135 EventRecord EventDestroy EventSynchronize EventQuery EventElapsedTime Malloc3D Malloc3DArray
142 Memset3D Memset3DAsync Memcpy3D Memcpy3DAsync
147 StreamWaitEvent
151 PointerGetAttributes HostRegister HostUnregister
160 MemcpyPeer MemcpyPeerAsync Memcpy3DPeer Memcpy3DPeerAsync DeviceReset
165 DeviceSynchronize
171 ProfilerStart ProfilerStop
197 StreamAddCallback StreamCreateWithFlags
200 DeviceGetAttribute StreamDestroy StreamCreateWithPriority
206 MallocManaged OccupancyMaxActiveBlocksPerMultiprocessor StreamAttachMemAsync
210 OccupancyMaxActiveBlocksPerMultiprocessor LaunchKernel
213 Launch LaunchKernel Memcpy Memcpy2D MemcpyToArray Memcpy2DToArray MemcpyFromArray
220 Memcpy2DFromArray MemcpyArrayToArray Memcpy2DArrayToArray MemcpyToSymbol MemcpyFromSymbol
225 MemcpyAsync MemcpyToArrayAsync MemcpyFromArrayAsync Memcpy2DAsync Memcpy2DToArrayAsync
230 Memcpy2DFromArrayAsync MemcpyToSymbolAsync MemcpyFromSymbolAsync Memset Memset2D MemsetAsync
236 Memset2DAsync StreamGetPriority StreamGetFlags StreamSynchronize StreamQuery
241 StreamAttachMemAsync EventRecord Memset3D Memset3DAsync Memcpy3D Memcpy3DAsync
247 StreamWaitEvent StreamAddCallback Memcpy3DPeer Memcpy3DPeerAsync
251 OccupancyMaxActiveBlocksPerMultiprocessorWithFlags MemPrefetchAsync MemPrefetchAsync
269 LaunchCooperativeKernel LaunchCooperativeKernel
272 LaunchCooperativeKernelMultiDevice FuncSetAttribute
284 LaunchHostFunc LaunchHostFunc
310 GraphInstantiate GraphLaunch GraphLaunch
315 StreamBeginCapture StreamBeginCapture StreamIsCapturing StreamIsCapturing
"""
_DRIVER = """
1 Init
10 CtxCreate CtxDestroy
17 CtxSynchronize ModuleLoad ModuleLoadData ModuleLoadDataEx ModuleLoadFatBinary
22 ModuleUnload ModuleGetFunction
115 Launch LaunchGrid LaunchGridAsync EventCreate EventRecord EventQuery
121 EventSynchronize EventDestroy EventElapsedTime StreamCreate StreamQuery
126 StreamSynchronize StreamDestroy
216 MemsetD8Async
218 MemsetD16Async
220 MemsetD32Async
222 MemsetD2D8Async
224 MemsetD2D16Async
226 MemsetD2D32Async
235 CtxCreate
242 MemGetInfo MemAlloc MemAllocPitch MemFree
248 Memcpy MemsetD8 MemsetD16 MemsetD32 MemsetD2D8 MemsetD2D16 MemsetD2D32
271 MemHostAlloc
276 MemcpyHtoD MemcpyHtoDAsync MemcpyDtoH MemcpyDtoHAsync MemcpyDtoD MemcpyDtoDAsync MemcpyAtoH
283 MemcpyAtoHAsync MemcpyAtoD MemcpyDtoA MemcpyAtoA Memcpy2D Memcpy2DUnaligned Memcpy2DAsync
290 Memcpy3D Memcpy3DAsync MemcpyHtoA MemcpyHtoAAsync MemAllocHost StreamWaitEvent
301 MemHostRegister MemHostUnregister CtxSetCurrent CtxGetCurrent
305 Memcpy MemcpyAsync LaunchKernel ProfilerStart ProfilerStop
318 MemcpyPeer MemcpyPeerAsync Memcpy3DPeer Memcpy3DPeerAsync
397 MemcpyHtoD MemcpyDtoH MemcpyDtoD MemcpyDtoA MemcpyAtoD MemcpyHtoA MemcpyAtoH MemcpyAtoA
405 Memcpy2D Memcpy2DUnaligned Memcpy3D Memcpy MemcpyPeer Memcpy3DPeer MemsetD8 MemsetD16
413 MemsetD32 MemsetD2D8 MemsetD2D16 MemsetD2D32
418 MemcpyAsync MemcpyHtoAAsync MemcpyAtoHAsync MemcpyHtoDAsync MemcpyDtoHAsync MemcpyDtoDAsync
424 Memcpy2DAsync Memcpy3DAsync MemcpyPeerAsync Memcpy3DPeerAsync MemsetD8Async MemsetD16Async
430 MemsetD32Async MemsetD2D8Async MemsetD2D16Async MemsetD2D32Async
436 StreamWaitEvent
440 StreamSynchronize
442 LaunchKernel
477 LaunchCooperativeKernel LaunchCooperativeKernel
480 LaunchCooperativeKernelMultiDevice
514 GraphLaunch GraphLaunch
"""


def _named(table: str, prefix: str) -> dict[int, str]:
    """Names by number."""
    names: dict[int, str] = {}
    for line in table.strip().splitlines():
        first, *rest = line.split()
        names.update(enumerate((f"{prefix}{name}" for name in rest), start=int(first)))
    return names


RUNTIME_CALLS = _named(_RUNTIME, "cuda")
"""Calls of the runtime API by number."""

DRIVER_CALLS = _named(_DRIVER, "cu")
"""Calls of the driver API by number."""
