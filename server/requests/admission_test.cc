#include "server/requests/admission.h"

#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "server/requests/client_identity.h"

namespace cellbatch {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

TEST(AdmissionTest, ATicketGivesBackWhatItTook) {
  Admission admission({.max_requests = 10, .max_cells = 100, .max_bytes = 1000});
  {
    Ticket ticket;
    Refusal refusal;
    ASSERT_TRUE(admission.Admit({1, 24, 300}, kSecond, ticket, refusal));
    EXPECT_EQ(admission.InFlight().requests, 1);
    EXPECT_EQ(admission.InFlight().cells, 24);
    EXPECT_EQ(admission.InFlight().bytes, 300);
    Ticket elsewhere = std::move(ticket);
    ticket.Release();
    EXPECT_EQ(admission.InFlight().requests, 1);
  }
  EXPECT_EQ(admission.InFlight().requests, 0);
  EXPECT_EQ(admission.InFlight().cells, 0);
  EXPECT_EQ(admission.InFlight().bytes, 0);
}

TEST(AdmissionTest, TicketsThatAreJoinedAreOneAndWhatItKeepsIsAllThatIsInFlight) {
  Admission admission({.max_requests = 10, .max_cells = 100, .max_bytes = 1000});
  Ticket door, work, nothing;
  Refusal refusal;
  ASSERT_TRUE(admission.Admit({1, 0, 300}, kSecond, door, refusal));
  ASSERT_TRUE(admission.Admit({2, 24, 100}, kSecond, work, refusal));
  door.Join(std::move(work));
  EXPECT_EQ(door.demand().requests, 3);
  EXPECT_EQ(door.demand().bytes, 400);
  EXPECT_EQ(work.demand().requests, 0);
  EXPECT_EQ(admission.InFlight().cells, 24);
  door.Keep({1, 0, 500});
  EXPECT_EQ(admission.InFlight().requests, 1);
  EXPECT_EQ(admission.InFlight().cells, 0);
  EXPECT_EQ(admission.InFlight().bytes, 500);
  nothing.Keep({1, 1, 1});
  nothing.Join(std::move(door));
  EXPECT_EQ(admission.InFlight().requests, 1);
  nothing.Release();
  EXPECT_EQ(admission.InFlight().requests, 0);
  EXPECT_EQ(admission.InFlight().bytes, 0);
}

TEST(AdmissionTest, EachLimitRefusesByNameAndLeavesNothingBehind) {
  Admission admission({.max_requests = 2, .max_cells = 100, .max_bytes = 1000});
  Ticket first, second, none;
  Refusal refusal;
  ASSERT_TRUE(admission.Admit({1, 60, 10}, kSecond, first, refusal));

  ASSERT_FALSE(admission.Admit({1, 41, 10}, kSecond, none, refusal));
  EXPECT_EQ(refusal.reason, Rejection::kCells);
  EXPECT_EQ(refusal.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(std::string(refusal.status.message()),
            "the server is full: 60 cells in flight, 41 asked for, --max-queued-cells is 100");
  EXPECT_GT(refusal.pushback_ms, 0);

  ASSERT_FALSE(admission.Admit({1, 1, 991}, kSecond, none, refusal));
  EXPECT_EQ(refusal.reason, Rejection::kBytes);

  ASSERT_TRUE(admission.Admit({1, 40, 990}, kSecond, second, refusal));
  ASSERT_FALSE(admission.Admit({1, 0, 0}, kSecond, none, refusal));
  EXPECT_EQ(refusal.reason, Rejection::kRequests);
  EXPECT_EQ(admission.InFlight().cells, 100);
}

TEST(AdmissionTest, WhatCanNeverFitIsToldNotToRetry) {
  Admission admission({.max_requests = 2, .max_cells = 100, .max_bytes = 1000});
  Ticket none;
  Refusal refusal;
  ASSERT_FALSE(admission.Admit({1, 101, 0}, kSecond, none, refusal));
  EXPECT_EQ(refusal.pushback_ms, -1);
  EXPECT_EQ(
      std::string(refusal.status.message()),
      "the request needs 101 cells, and --max-queued-cells limits all requests together to 100");
}

// While such a one is refused, a thread beside it must not find the server full of what was never taken.
TEST(AdmissionTest, WhatCanNeverFitTakesNothingFromOthersWhileItIsRefused) {
  constexpr int kAsks = 200'000;
  Admission admission({.max_requests = 10, .max_cells = 100, .max_bytes = 1000});
  std::atomic<bool> stop = false;
  std::thread large([&] {
    const Demand never[] = {{11, 0, 0}, {1, 101, 0}, {1, 0, 1001}};
    for (size_t i = 0; !stop; ++i) {
      Ticket ticket;
      Refusal refusal;
      EXPECT_FALSE(admission.Admit(never[i % 3], kSecond, ticket, refusal));
    }
  });
  int refused = 0;
  for (int i = 0; i < kAsks; ++i) {
    Ticket ticket;
    Refusal refusal;
    refused += admission.Admit({1, 1, 1}, kSecond, ticket, refusal) ? 0 : 1;
  }
  stop = true;
  large.join();
  EXPECT_EQ(refused, 0) << "of " << kAsks;
}

TEST(AdmissionTest, ClosedRefusesAndTheLastTicketEmptiesIt) {
  Admission admission({});
  Ticket held, none;
  Refusal refusal;
  ASSERT_TRUE(admission.Admit({1, 1, 1}, kSecond, held, refusal));
  admission.Close();
  ASSERT_FALSE(admission.Admit({1, 1, 1}, kSecond, none, refusal));
  EXPECT_EQ(refusal.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(admission.InFlight().requests, 1);
  held.Release();
  EXPECT_EQ(admission.InFlight().requests, 0);
}

// A piece of a sequence may have waited for its turn: it counted when it came, and its cells do when it runs.
TEST(AdmissionTest, WhatOneThatIsInStillNeedsIsAdmittedAfterClose) {
  Admission admission({});
  Ticket held, more;
  Refusal refusal;
  ASSERT_TRUE(admission.Admit({1, 0, 1}, kSecond, held, refusal));
  admission.Close();
  EXPECT_TRUE(admission.Admit({0, 5, 0}, kSecond, more, refusal));
  EXPECT_EQ(admission.InFlight().cells, 5);
}

TEST(AdmissionTest, ATicketThatIsAssignedGivesBackWhatItHad) {
  Admission admission({});
  Ticket one, other;
  Refusal refusal;
  ASSERT_TRUE(admission.Admit({1, 2, 3}, kSecond, one, refusal));
  ASSERT_TRUE(admission.Admit({1, 20, 30}, kSecond, other, refusal));
  one = std::move(other);
  EXPECT_EQ(admission.InFlight().requests, 1);
  EXPECT_EQ(admission.InFlight().cells, 20);
  one.Release();
  EXPECT_EQ(admission.InFlight().bytes, 0);
}

TEST(AdmissionTest, ThePushbackFollowsTheRateAtWhichRequestsLeave) {
  Admission admission({.max_requests = 100, .max_cells = 1000, .max_bytes = 1000});
  std::vector<Ticket> tickets(100);
  Ticket none;
  Refusal refusal;
  for (Ticket& ticket : tickets) ASSERT_TRUE(admission.Admit({}, kSecond, ticket, refusal));
  ASSERT_FALSE(admission.Admit({}, kSecond, none, refusal));
  EXPECT_GE(refusal.pushback_ms, 5000);  // nobody has left yet: the longest there is
  // In the next second a thousand leave, and as many come.
  for (int i = 0; i < 1000; ++i) {
    tickets[i % 100].Release();
    ASSERT_TRUE(admission.Admit({}, kSecond, tickets[i % 100], refusal));
  }
  ASSERT_FALSE(admission.Admit({}, 2 * kSecond, none, refusal));
  EXPECT_GE(refusal.pushback_ms, 5);  // about a tenth of 100 in flight at 1000 a second
  EXPECT_LE(refusal.pushback_ms, 15);
}

TEST(AdmissionTest, ClientsThatAreRefusedTogetherAreToldToComeBackAtTimesSpreadEvenly) {
  Admission admission({});
  constexpr int kHints = 1100;
  std::vector<int> times(11);
  for (int i = 0; i < kHints; ++i) {
    const int32_t hint = admission.Spread(1000);
    ASSERT_GE(hint, 500);
    ASSERT_LE(hint, 1500);
    ++times[static_cast<size_t>(hint - 500) / 100];
  }
  for (size_t i = 0; i < 10; ++i) EXPECT_NEAR(times[i], kHints / 10, 5) << i;
  EXPECT_GE(admission.Spread(0), 2);
  EXPECT_LE(admission.Spread(int64_t{1} << 60), 15000);
}

// A bound of 100 requests, 90 of them at most for one; a client that always wants one more.
class SharesTest : public ::testing::Test {
 protected:
  bool Take(Parties of, const Demand& demand = {}) {
    Ticket ticket;
    if (!admission_.Admit(demand, kSecond, ticket, refusal_, of)) return false;
    held_[of.client].push_back(std::move(ticket));
    return true;
  }
  int TakeAll(Parties of) {
    int taken = 0;
    while (Take(of)) ++taken;
    return taken;
  }
  Parties Client(uint64_t number) { return {.client = &admission_.ClientOf(number)}; }
  size_t Held(uint64_t number) { return held_[Client(number).client].size(); }
  void FinishOne(uint64_t number) { held_[Client(number).client].pop_back(); }

  Admission admission_{{.max_requests = 100,
                        .max_cells = 1000,
                        .max_bytes = 1000,
                        .client_share_percent = 90,
                        .model_share_percent = 95,
                        .clients = 8}};
  Refusal refusal_;
  std::map<Party*, std::vector<Ticket>> held_;
};

TEST_F(SharesTest, OneAloneHasItsShareAndTheRestIsThereForTheNextToCome) {
  EXPECT_EQ(TakeAll(Client(1)), 90);
  EXPECT_EQ(refusal_.reason, Rejection::kClientShare);
  EXPECT_EQ(std::string(refusal_.status.message()),
            "this client has 90 requests in flight, which is its share while others have 0: "
            "--max-queued-requests is 100, --client-share-percent 90");
  EXPECT_GT(refusal_.pushback_ms, 0);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(Take(Client(2)));
}

TEST_F(SharesTest, AFloodGivesWayToTheOthersAsItsRequestsEnd) {
  TakeAll(Client(1));
  for (int round = 0; round < 200; ++round) {
    FinishOne(1);
    Take(Client(1));  // at once, and before anybody else
    Take(Client(2));
    Take(Client(3));
  }
  EXPECT_LE(Held(1), 40u);
  EXPECT_GE(Held(2), 25u);
  EXPECT_GE(Held(3), 25u);
}

TEST_F(SharesTest, WhoHasNothingIsRefusedByAFullServerAlone) {
  EXPECT_EQ(TakeAll(Client(1)), 90);
  EXPECT_EQ(TakeAll(Client(2)), 9);
  EXPECT_EQ(refusal_.reason, Rejection::kClientShare);
  EXPECT_EQ(TakeAll(Client(3)), 1);
  EXPECT_EQ(TakeAll(Client(4)), 0);
  EXPECT_EQ(refusal_.reason, Rejection::kRequests);
}

TEST_F(SharesTest, CellsAndBytesAreSharedToo) {
  ASSERT_TRUE(Take(Client(1), {1, 950, 1}));
  EXPECT_FALSE(Take(Client(1), {1, 1, 1}));
  EXPECT_EQ(refusal_.reason, Rejection::kClientShare);
  EXPECT_TRUE(Take(Client(2), {1, 10, 930}));
  EXPECT_FALSE(Take(Client(2), {1, 0, 1}));
  EXPECT_TRUE(Take(Client(3), {1, 10, 10}));
}

// A request is admitted in steps: the first one counts it, the others ask for its cells and bytes.
TEST_F(SharesTest, WhoHasItsShareOfRequestsIsNotRefusedWhatTheLastOneOfThemNeeds) {
  EXPECT_EQ(TakeAll(Client(1)), 90);
  EXPECT_TRUE(Take(Client(1), {0, 5, 0}));
  EXPECT_TRUE(Take(Client(1), {0, 0, 5}));
  EXPECT_FALSE(Take(Client(1), {1, 0, 0}));
}

TEST_F(SharesTest, AModelHasItsShareOnceItIsKnown) {
  Party flooded, other;
  std::vector<Ticket> tickets(100);
  int entered = 0;
  for (Ticket& ticket : tickets) {
    ASSERT_TRUE(admission_.Admit({}, kSecond, ticket, refusal_));
    if (admission_.Enter(ticket, flooded, kSecond, refusal_)) {
      ++entered;
    } else {
      ticket.Release();
    }
  }
  EXPECT_EQ(entered, 95);
  EXPECT_EQ(refusal_.reason, Rejection::kModelShare);
  EXPECT_EQ(flooded.InFlight().requests, 95);
  Ticket ticket;
  ASSERT_TRUE(admission_.Admit({}, kSecond, ticket, refusal_));
  EXPECT_TRUE(admission_.Enter(ticket, other, kSecond, refusal_));
  tickets.clear();
  ticket.Release();
  EXPECT_EQ(flooded.InFlight().requests, 0);
  EXPECT_EQ(other.InFlight().requests, 0);
}

TEST(ClientIdentityTest, ATenantIsBeforeATokenAndATokenBeforeAnAddressWithoutItsPort) {
  const uint64_t tenant = ClientOf("a", "secret", "", "ipv4:10.0.0.7:1");
  EXPECT_EQ(tenant, ClientOf("a", "", "", "ipv4:10.0.0.8:2"));
  EXPECT_NE(tenant, ClientOf("b", "secret", "", "ipv4:10.0.0.7:1"));
  const uint64_t token = ClientOf("", "secret", "", "ipv4:10.0.0.7:1");
  EXPECT_EQ(token, ClientOf("", "secret", "", "ipv6:%5B::1%5D:2"));
  EXPECT_NE(token, ClientOf("", "another", "", "ipv4:10.0.0.7:1"));
  EXPECT_EQ(ClientOf("", "", "someone", "ipv4:10.0.0.7:1"),
            ClientOf("", "", "someone", "ipv4:10.0.0.8:1"));
  EXPECT_NE(ClientOf("", "", "someone", "ipv4:10.0.0.7:1"),
            ClientOf("", "", "another", "ipv4:10.0.0.7:1"));
  EXPECT_EQ(token, ClientOf("", "secret", "someone", "ipv4:10.0.0.7:1"));
  EXPECT_EQ(ClientOf("", "", "", "ipv4:10.0.0.7:1"), ClientOf("", "", "", "ipv4:10.0.0.7:2"));
  EXPECT_NE(ClientOf("", "", "", "ipv4:10.0.0.7:1"), ClientOf("", "", "", "ipv4:10.0.0.8:1"));
  EXPECT_EQ(ClientOf("", "", "", "ipv6:%5B::1%5D:1"), ClientOf("", "", "", "ipv6:%5B::1%5D:2"));
}

TEST(AdmissionTest, NoThreadGetsMoreThanThereIs) {
  Admission admission({.max_requests = 3, .max_cells = 1000, .max_bytes = 1000});
  std::atomic<int> inside = 0, most = 0, admitted = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        Ticket ticket;
        Refusal refusal;
        if (!admission.Admit({1, 1, 1}, kSecond, ticket, refusal)) continue;
        const int now = ++inside;
        ++admitted;
        int seen = most;
        while (now > seen && !most.compare_exchange_weak(seen, now)) {
        }
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most, 3);
  EXPECT_GT(admitted, 0);
  EXPECT_EQ(admission.InFlight().requests, 0);
}

}  // namespace
}  // namespace cellbatch
