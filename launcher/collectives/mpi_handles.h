// SPDX-License-Identifier: Apache-2.0
// What the MPI parts share: mpi.h without its C++ bindings, and the conversion of errors, types and operations.
#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <memory>
#include <string>

#include "launcher/collectives/backend.h"

namespace dl::learner {

// kIo with the text "what: MPI's error string". mpi_status(): success if code is MPI_SUCCESS.
Error mpi_error(const std::string& what, int code);
Status mpi_status(const std::string& what, int code);

// The MPI type and operation for a dtype and an op. Half types are sent as 16-bit integers, with user-defined
// operations (made once per process; freed by free_mpi_operations before MPI_Finalize).
MPI_Datatype mpi_type(int dtype);
Result<MPI_Op> mpi_operation(int dtype, int op);
void free_mpi_operations();

// Wraps a request of MPI's. mean: if data is set, these elements are divided by divisor when the request is done.
struct Mean {
  void* data = nullptr;
  size_t count = 0;
  int dtype = 0;
  int divisor = 1;
};
std::unique_ptr<Request> make_mpi_request(MPI_Request request, const char* what, double timeout_s, const Mean& mean);

// Takes ownership of comm (freed with the backend unless that was abandoned). timeout_s 0: wait in MPI's own calls.
std::unique_ptr<Backend> make_mpi_backend(MPI_Comm comm, double timeout_s);

}  // namespace dl::learner
