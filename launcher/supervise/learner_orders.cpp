// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/learner_orders.h"

namespace dl::supervise {

using namespace protocol;

void LearnerOrders::perform(const SendRequest& request) {
  for (int rank = 0; rank < attempt_.deciding(); ++rank)
    if (!attempt_.learner(rank).ended) agents_->tell(rank, Request{request.request, request.kind});
}

void LearnerOrders::perform(const SendDecide& decide) {
  agents_->tell_all(encode(Decide{decide.request, decide.kind, decide.step}), attempt_.learners());
}

void LearnerOrders::perform(const SendWithdraw& withdraw) {
  agents_->tell_all(encode(Withdraw{withdraw.request}), attempt_.learners());
}

void LearnerOrders::perform(const SignalLearners& signal) {
  agents_->tell_all(encode(Signal{signal.signal, signal.handed_on}), attempt_.learners());
}

void LearnerOrders::perform(const KillLearners& kill) {
  agents_->tell_all(encode(Kill{kill.grace_ms}), attempt_.learners());
}

}  // namespace dl::supervise
