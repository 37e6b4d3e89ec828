#include "server/lifecycle.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace cellbatch {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

TEST(LifecycleTest, IsReadyOnlyBetweenServeAndTheRequestToStop) {
  Lifecycle lifecycle;
  std::vector<bool> heard;
  lifecycle.AddListener([&](bool ready) { heard.push_back(ready); });
  EXPECT_FALSE(lifecycle.ready());
  EXPECT_TRUE(lifecycle.Serve());
  EXPECT_TRUE(lifecycle.ready());
  lifecycle.SetHealthy(false);
  EXPECT_FALSE(lifecycle.ready());
  lifecycle.SetHealthy(true);
  lifecycle.RequestStop();
  EXPECT_FALSE(lifecycle.ready());
  EXPECT_EQ(lifecycle.phase(), ServerPhase::kDraining);
  EXPECT_EQ(heard, (std::vector<bool>{false, true, false, true, false}));
}

TEST(LifecycleTest, AStopWhileStartingIsNotForgotten) {
  Lifecycle lifecycle;
  lifecycle.RequestStop();
  EXPECT_FALSE(lifecycle.Serve());
  EXPECT_FALSE(lifecycle.ready());
  EXPECT_FALSE(lifecycle.served());
  lifecycle.WaitForStop(nullptr);  // returns
}

TEST(LifecycleTest, WhoStopsItHearsWhatThatEnded) {
  Lifecycle stopped_early, lifecycle;
  EXPECT_EQ(stopped_early.RequestStop(), ServerPhase::kStarting);
  EXPECT_EQ(stopped_early.RequestStop(), ServerPhase::kDraining);
  lifecycle.Serve();
  EXPECT_EQ(lifecycle.RequestStop(), ServerPhase::kServing);
  lifecycle.Stopped();
  EXPECT_EQ(lifecycle.RequestStop(), ServerPhase::kStopped);
  EXPECT_TRUE(lifecycle.served()) << "it was";
}

// Nobody was told that it is ready: it does not wait for who tells others.
TEST(LifecycleTest, AStopWhileStartingLeavesNoDelayAndWaitsForWhatWasAcceptedAllTheSame) {
  Lifecycle lifecycle;
  lifecycle.RequestStop();
  int64_t left = 3;
  bool refused = false;
  EXPECT_TRUE(lifecycle.Drain({.delay = hours(1), .timeout = hours(1)},
                              {.refuse_new = [&] { refused = true; },
                               .in_flight = [&] { return --left; },
                               .answer_the_rest = [] { ADD_FAILURE() << "all was answered"; }}));
  EXPECT_TRUE(refused);
  EXPECT_EQ(left, 0);
}

TEST(LifecycleTest, DrainRefusesNewOnesThenWaitsForAcceptedOnes) {
  Lifecycle lifecycle;
  lifecycle.Serve();
  lifecycle.RequestStop();
  std::vector<std::string> order;
  int64_t left = 3;
  const bool all = lifecycle.Drain({.delay = milliseconds(0), .timeout = hours(1)},
                                   {.refuse_new = [&] { order.push_back("refuse"); },
                                    .in_flight =
                                        [&] {
                                          order.push_back("left " + std::to_string(left));
                                          return left--;
                                        },
                                    .answer_the_rest = [&] { order.push_back("rest"); }});
  EXPECT_TRUE(all);
  EXPECT_EQ(order, (std::vector<std::string>{"refuse", "left 3", "left 2", "left 1", "left 0"}));
}

TEST(LifecycleTest, WhatIsLeftWhenTheTimeIsOverIsAnswered) {
  Lifecycle lifecycle;
  lifecycle.RequestStop();
  bool answered = false;
  const bool all = lifecycle.Drain({.delay = milliseconds(0), .timeout = milliseconds(0)},
                                   {.refuse_new = [] {},
                                    .in_flight = [&] { return answered ? 0 : 5; },
                                    .answer_the_rest = [&] { answered = true; }});
  EXPECT_FALSE(all);
  EXPECT_TRUE(answered);
}

TEST(LifecycleTest, ASecondStopSkipsTheDelayAndAThirdTheWait) {
  Lifecycle lifecycle;
  lifecycle.Serve();
  lifecycle.RequestStop();
  lifecycle.RequestStop();
  bool answered = false;
  std::thread third;
  const bool all =
      lifecycle.Drain({.delay = hours(1), .timeout = hours(1)},
                      {.refuse_new = [&] { third = std::thread([&] { lifecycle.RequestStop(); }); },
                       .in_flight = [&] { return answered ? 0 : 1; },
                       .answer_the_rest = [&] { answered = true; }});
  third.join();
  EXPECT_FALSE(all);
  EXPECT_TRUE(answered);
}

TEST(LifecycleTest, TheFirstStopSkipsNeitherTheDelayNorTheSecondTheWait) {
  Lifecycle lifecycle;
  lifecycle.Serve();
  lifecycle.RequestStop();
  std::atomic<bool> second = false;
  std::thread stopper([&] {
    std::this_thread::sleep_for(milliseconds(20));  // for the delay to have begun, as it should
    second = true;
    lifecycle.RequestStop();
  });
  int left = 3;
  EXPECT_TRUE(lifecycle.Drain({.delay = hours(1), .timeout = hours(1)},
                              {.refuse_new = [&] { EXPECT_TRUE(second); },
                               .in_flight = [&] { return --left; },
                               .answer_the_rest = [] { ADD_FAILURE() << "all was answered"; }}));
  stopper.join();
}

TEST(LifecycleTest, TheEndOfADrainIsTheLastAnswerNotTheNewsOfIt) {
  Lifecycle lifecycle;
  for (int i = 0; i < 3; ++i) lifecycle.RequestStop();
  int64_t left = 5;
  bool answered = false;
  EXPECT_FALSE(lifecycle.Drain({.delay = hours(1), .timeout = hours(1)},
                               {.refuse_new = [] {},
                                .in_flight = [&] { return answered ? left-- : left; },
                                .answer_the_rest = [&] { answered = true; }}));
  EXPECT_EQ(left, -1) << "asked until there was none";
  lifecycle.Stopped();
  lifecycle.RequestStop();
  EXPECT_EQ(lifecycle.phase(), ServerPhase::kStopped);
}

TEST(LifecycleTest, WhoListensHearsOfChangesAlone) {
  Lifecycle lifecycle;
  std::vector<bool> heard;
  for (const bool healthy : {false, true}) lifecycle.SetHealthy(healthy);
  EXPECT_FALSE(lifecycle.ready()) << "it does not serve yet";
  lifecycle.SetHealthy(false);
  lifecycle.Serve();
  lifecycle.AddListener([&](bool ready) { heard.push_back(ready); });
  EXPECT_FALSE(lifecycle.ready()) << "it serves, and can compute nothing";
  for (const bool healthy : {true, true, false, false}) lifecycle.SetHealthy(healthy);
  lifecycle.RequestStop();
  EXPECT_EQ(heard, (std::vector<bool>{false, true, false}));
}

TEST(LifecycleTest, WhoIsAskedWhileItWaitsMayRequestTheStop) {
  Lifecycle lifecycle;
  lifecycle.Serve();
  lifecycle.WaitForStop([&] {
    lifecycle.RequestStop();
    return false;
  });
  EXPECT_EQ(lifecycle.phase(), ServerPhase::kDraining);
}

TEST(LifecycleTest, LosingEveryDeviceIsNoticedWhileWaiting) {
  Lifecycle lifecycle;
  lifecycle.Serve();
  std::thread stopper;
  lifecycle.AddListener([&](bool ready) {
    if (!ready) stopper = std::thread([&] { lifecycle.RequestStop(); });
  });
  // The first call of the listener says ready; when the device is gone it asks for the stop.
  lifecycle.WaitForStop([] { return false; });
  stopper.join();
  EXPECT_FALSE(lifecycle.ready());
}

}  // namespace
}  // namespace cellbatch
