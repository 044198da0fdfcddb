// SPDX-License-Identifier: Apache-2.0
#define DL_INSTANCE template
#include "common/base/instances.h"
