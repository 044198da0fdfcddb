// SPDX-License-Identifier: Apache-2.0
// Finds metrics in the lines that training scripts usually print, without being configured: lines of PyTorch's
// examples, of Lightning, Transformers and Keras, and lines like them.
//
//   Epoch: [0][  10/5005]  Time  0.336 ( 1.256)  Loss 7.0012e+00 (7.0321e+00)  Acc@1   0.00 (  0.07)
//   Epoch 3:  10%|#         | 10/100 [00:01<00:09, 9.9it/s, v_num=3, train_loss=0.33, val_loss=0.4]
//   {'loss': 0.33, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 0.5}
//   1875/1875 [==============================] - 3s 1ms/step - loss: 0.2945 - val_accuracy: 0.9142
//   step 120: loss=0.33, lr 0.001
//
// A name counts if a word of it is one of those that metrics usually have (loss, accuracy, lr, ...). A name before a
// colon or an equals sign may have any number behind it, one before a blank only a number with a point or an exponent,
// so that sentences are not taken for metrics. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/metrics/found.h"

namespace dl::metrics {

constexpr size_t kLongestMetricLine = 16 << 10;  // of a longer line only the beginning is looked at

class UsualLines {
 public:
  // Adds the metrics of a line, which is given without its newline.
  void read(std::string_view line, std::vector<Found>* found);
  // What earlier lines said. A collector that begins anew sets these first.
  int64_t epoch = 0;          // counted from 0
  int64_t batches = 0;        // of a data epoch; 0: no line has told it
  int64_t counted = kNoStep;  // train steps, counted from epochs and batches
  // Train steps that the whole training has, by what lines count to ("Epoch 3/5", "| 120/1000 [", "step 120/1000"); 0:
  // no line has told it. A bar that begins anew counts the batches of a data epoch, of which the number is not known.
  int64_t total = 0;

 private:
  void read_place(std::string_view line, int64_t* step, bool* surely);
  void take_bar(int64_t done, int64_t of);

  int64_t epochs_ = 0;  // of the training; 0: no line has told it
  int64_t bar_done_ = 0;
  bool bar_again_ = false;
};

}  // namespace dl::metrics
