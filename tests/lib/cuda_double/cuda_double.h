// SPDX-License-Identifier: Apache-2.0
// A libcuda.so.1 for machines without a GPU: what libdlckpt calls of the CUDA driver, on memory that the host cannot
// touch. Only tests load it.
//
// It is stricter than a driver. Device and managed memory is mapped without any right, so that an access by anybody but
// the double ends the test; copies happen when they are waited for and not before, and what they will overwrite on the
// host is spoilt until then; whatever a real driver would refuse or let go wrong is kept as a sentence in faults().
#pragma once

#include <cstddef>

extern "C" {

enum CudaDoubleKind {
  kDoubleDevice,   // of the device's primary context
  kDoubleManaged,  // the same, and managed
  kDoublePool,     // of no context, as memory pools give it
};

struct CudaDoubleLeft {
  long streams, pinned, pushed, retained;
  long modes;  // threads that have another capture mode than at their beginning
};

struct CudaDouble {
  // Devices 0 and 1. The program's own calls: they neither fail nor count.
  void (*init)();  // cuInit; before it the driver knows nothing
  void* (*allocate)(size_t bytes, int kind, int device);
  void (*release)(void* memory);
  unsigned char* (*contents)(const void* memory);  // what the device sees there
  void (*queue)(int device, void (*kernel)(void*), void* argument);
  void (*synchronize)(int device);

  // Makes the library's call number `at`, counted from here on, fail with `code`, and with `dead` also all after it; 0:
  // none.
  void (*fail)(long at, int code, bool dead);
  bool (*failed)();                  // whether that has happened
  const char* (*failed_function)();  // which it was
  long (*calls)(const char* name);   // nullptr: of all functions
  CudaDoubleLeft (*left)();          // what the library holds
  const char* (*faults)();           // what it has done wrong, or ""
  void (*forgive)();                 // empties faults() and left()

  // A thread, the calling one or another, captures a CUDA graph on a stream of the device, in a mode of the driver's.
  // One capture at a time. As the driver does, the double refuses calls beside it which the mode forbids, and which
  // then have ended it: whether it is still good is what end_capture() says. (Of the library's calls it takes all but
  // those that ask or change what is the thread's alone for unsafe in the driver's sense.)
  void (*begin_capture)(int device, int mode, bool by_another_thread);
  bool (*end_capture)();
};

const CudaDouble* cuda_double();
}
