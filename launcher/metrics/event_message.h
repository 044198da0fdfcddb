// SPDX-License-Identifier: Apache-2.0
// The scalars in an Event of TensorBoard, which is a message of Protocol Buffers (tensorflow/core/util/event.proto).
// Only the fields that scalars need are read: simple_value, as PyTorch writes it, and tensors of one number, as
// TensorFlow 2 does. Pictures, histograms, texts and graphs are passed over. Pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "launcher/metrics/found.h"

namespace dl::metrics {

constexpr size_t kMostOfEvent = 1000;  // values; further ones are left out

struct Scalar {
  std::string_view tag;  // within the bytes of the event; never empty
  double value = 0;
};

struct EventScalars {
  int64_t time_ms = 0;     // 0: the event tells none that can be
  int64_t step = kNoStep;  // kNoStep: none that can be
  std::vector<Scalar> scalars;
};

// Replaces *event, of which the memory is used again. False, and there are no scalars, if the bytes are no such
// message.
bool read_event(std::string_view bytes, EventScalars* event);

// The group and the name that a tag means: "Loss/train" and "train/Loss" are Loss of train, "val_loss" is loss of
// validate; a tag without such a word is of the group that the folder is named after ("train", "runs/validation", by
// which Keras divides groups), else of train. The folder may be empty.
void name_of_tag(std::string_view tag, std::string_view folder, Found* found);

}  // namespace dl::metrics
