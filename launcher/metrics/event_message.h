// SPDX-License-Identifier: Apache-2.0
// The scalars in an Event of TensorBoard, which is a message of Protocol Buffers (tensorflow/core/util/event.proto).
// Only the fields that scalars need are read: simple_value, as PyTorch writes it, and tensors of one number, as
// TensorFlow 2 does. Pictures, histograms, texts and graphs are passed over. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/metrics/found.h"

namespace dl::metrics {

constexpr size_t kMostOfEvent = 1000;  // values; further ones are left out

// Adds the scalars of an event. `folder` is that of its file ("train", "runs/validation"), by which Keras divides
// groups; may be empty. False, and nothing is added, if the bytes are no such message.
bool read_event(std::string_view bytes, std::string_view folder, std::vector<Found>* found);

// The group and the name that a tag means: "Loss/train" and "train/Loss" are Loss of train, "val_loss" is loss of
// validate; a tag without such a word is of the group that the folder is named after, else of train.
void name_of_tag(std::string_view tag, std::string_view folder, Found* found);

}  // namespace dl::metrics
