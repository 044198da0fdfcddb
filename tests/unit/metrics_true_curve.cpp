// SPDX-License-Identifier: Apache-2.0
// Which points of earlier attempts count no more, also over random histories.
#include "launcher/metrics/true_curve.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace dl::metrics {
namespace {

Piece piece(int attempt, const std::vector<int64_t>& steps) {
  Piece its{attempt, {}};
  for (const int64_t step : steps) its.points.push_back({attempt * 1000 + step, step, static_cast<double>(attempt)});
  return its;
}

// "1:0 1:1 (1:2) 2:2": attempt and step, in brackets what is superseded.
std::string text(const std::vector<CurvePoint>& curve) {
  std::string all;
  for (const CurvePoint& point : curve) {
    const std::string one = std::to_string(point.attempt) + ":" + std::to_string(point.point.step);
    all += (all.empty() ? "" : " ") + (point.superseded ? "(" + one + ")" : one);
  }
  return all;
}

TEST(TrueCurveTest, WhatALaterAttemptRepeatsIsSuperseded) {
  EXPECT_EQ(text(curve_of({piece(1, {0, 1, 2, 3}), piece(2, {2, 3, 4})}, {{2, 2, 0}}, {})),
            "1:0 1:1 (1:2) (1:3) 2:2 2:3 2:4");
}

TEST(TrueCurveTest, WithoutAnAnnouncedStepTheFirstPointTells) {
  EXPECT_EQ(text(curve_of({piece(1, {0, 10, 20}), piece(2, {10, 20, 30})}, {}, {})),
            "1:0 (1:10) (1:20) 2:10 2:20 2:30");
}

TEST(TrueCurveTest, AnAttemptThatEndedBeforeItsFirstPointSupersedesToo) {
  EXPECT_EQ(text(curve_of({piece(1, {0, 10, 20, 30}), piece(3, {40})}, {{2, 15, 0}, {3, 35, 0}}, {})),
            "1:0 1:10 (1:20) (1:30) 3:40");
}

TEST(TrueCurveTest, AStartFromNothingSupersedesAll) {
  EXPECT_EQ(text(curve_of({piece(1, {0, 1}), piece(2, {-1, 5}), piece(3, {0})}, {{3, 0, 0}}, {})),
            "(1:0) (1:1) (2:-1) (2:5) 3:0");
}

TEST(TrueCurveTest, PointsWithoutAStepGoByTheTimeOfTheSave) {
  const Piece first{1, {{100, kNoStep, 1}, {200, kNoStep, 2}, {300, kNoStep, 3}}};
  const Piece second{2, {{500, kNoStep, 4}}};
  EXPECT_EQ(text(curve_of({first, second}, {{2, 50, 400}}, {{40, 150}, {50, 250}, {50, 600}})),
            "1:-1 1:-1 (1:-1) 2:-1");
  // Nothing is known of such a save: nothing is hidden.
  EXPECT_EQ(text(curve_of({first, second}, {{2, 50, 400}}, {})), "1:-1 1:-1 1:-1 2:-1");
}

// A training is imitated that is interrupted at random, saves at random, and goes on from its last save. The default
// view must be what one training without an interruption would have shown: each step once, from the attempt that
// counts.
TEST(TrueCurveTest, OverRandomResumesEachStepIsThereOnceAndFromTheLastAttemptThatMadeIt) {
  std::mt19937 random(11);
  for (int run = 0; run < 2000; ++run) {
    std::vector<Piece> pieces;
    std::vector<AttemptStart> starts;
    std::vector<Saved> saves;
    std::map<int64_t, int> made_by;  // step -> attempt
    int64_t saved = 0, now_ms = 1000;
    const int attempts = 1 + static_cast<int>(random() % 6);
    const bool known = random() % 2 == 0;  // whether the checkpoint library announces steps
    const bool without_steps = known && random() % 4 == 0;
    std::map<std::pair<int, int64_t>, int64_t> step_of;  // attempt and time -> step
    for (int attempt = 1; attempt <= attempts; ++attempt) {
      int64_t step = saved;
      starts.push_back({attempt, known ? std::optional<int64_t>(step) : std::nullopt, now_ms});
      Piece piece{attempt, {}};
      const int64_t end = step + 1 + static_cast<int64_t>(random() % 30);
      for (auto later = made_by.lower_bound(step); later != made_by.end();) later = made_by.erase(later);
      for (; step < end; ++step) {
        now_ms += 10;
        piece.points.push_back({now_ms, without_steps ? kNoStep : step, 0});
        step_of[{attempt, now_ms}] = step;
        made_by[step] = attempt;
        if (random() % 7 == 0) {
          saved = step + 1;
          saves.push_back({saved, now_ms + 1});
        }
      }
      now_ms += 100;
      pieces.push_back(piece);
    }
    std::map<int64_t, int> shown;
    for (const CurvePoint& point : curve_of(pieces, starts, saves)) {
      if (point.superseded) continue;
      const int64_t step = step_of[{point.attempt, point.point.time_ms}];
      ASSERT_TRUE(shown.emplace(step, point.attempt).second) << "step " << step << " twice in run " << run;
    }
    ASSERT_EQ(shown, made_by) << "run " << run;
  }
}

}  // namespace
}  // namespace dl::metrics
