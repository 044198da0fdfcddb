// SPDX-License-Identifier: Apache-2.0
// What the parts that speak MPI share: its header without the C++ bindings, its errors as ours, its types for ours.
#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <memory>
#include <string>

#include "launcher/collectives/backend.h"

namespace dl::learner {

// "what: MPI's own words", kIo.
Error mpi_error(const std::string& what, int code);
Status mpi_status(const std::string& what, int code);

// MPI's type and operation for ours. Half types travel as 16-bit integers, with operations of our own (made once per
// process; freed by free_mpi_operations before MPI_Finalize).
MPI_Datatype mpi_type(int dtype);
Result<MPI_Op> mpi_operation(int dtype, int op);
void free_mpi_operations();

// A request of MPI's. mean_of: where a mean is to be made of the sum when it is done, else nullptr.
struct Mean {
  void* data = nullptr;
  size_t count = 0;
  int dtype = 0;
  int divisor = 1;
};
std::unique_ptr<Request> make_mpi_request(MPI_Request request, const char* what, double timeout_s, const Mean& mean);

// Takes the communicator over (freed with the backend, unless it was abandoned). timeout_s 0: wait in MPI's own calls.
std::unique_ptr<Backend> make_mpi_backend(MPI_Comm comm, double timeout_s);

}  // namespace dl::learner
