// The check of a cluster's records finds each kind of fault, and its clients repeat what is not answered.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <cubepi/core/run.hpp>

#include "cluster.hpp"
#include "cluster_records.hpp"

namespace cubepi::cluster_tests {
namespace {

/// Two messages of one session, and the records that are right for them.
class Findings : public ::testing::Test {
protected:
    Findings() {
        records.inbound = {{1, "k1", true}, {2, "k2", true}};
        records.outbound = {{3, {1}, "sent"}, {4, {2}, "failed"}};
        records.tapes["tape"] = {
            {true, "one"}, {false, "re: one"}, {true, "two"}, {false, "re: two"}};
        records.effects["k2"] = 1;
    }

    std::string found() const {
        std::string all;
        const std::vector<std::string> list = findings(posted, records);
        for (const std::string& one : list) all += one + ";";
        return all;
    }

    const std::vector<Posted> posted{{"k1", "s", "one"}, {"k2", "s", "two", true}};
    ClusterRecords records;
};

TEST_F(Findings, RightRecords_HaveNone) { EXPECT_EQ(found(), ""); }

TEST_F(Findings, MessageStoredTwice_IsFound) {
    records.inbound.push_back({5, "k1", true});
    records.outbound.push_back({6, {5}, "sent"});
    EXPECT_EQ(found(), "k1 has 2 records and not 1;");
}

TEST_F(Findings, LostMessage_IsFound) {
    records.inbound.erase(records.inbound.begin());
    EXPECT_EQ(found(), "k1 has 0 records and not 1;");
}

TEST_F(Findings, SecondTurn_IsFound) {
    records.tapes["tape"].push_back({true, "two"});
    EXPECT_EQ(found(), "k2 has 2 turns on its tape and not 1;");
}

TEST_F(Findings, LateTurn_IsFoundUnlessReleased) {
    TapeText late{true, "two"};
    late.is_late = true;
    records.tapes["tape"].push_back(late);
    EXPECT_EQ(found(), "k2 has 2 turns on its tape and not 1;");
    records.released = {2};
    EXPECT_EQ(found(), "");
    records.tapes["tape"].push_back({true, "two"});
    EXPECT_EQ(found(), "k2 has 2 turns on its tape and not 1;");
}

TEST_F(Findings, D264_LateTurnOfHeldMessage_IsRight) {
    TapeText late{true, "two"};
    late.is_late = true;
    records.tapes["tape"].push_back(late);
    records.inbound[1].is_held = true;
    EXPECT_EQ(found(), "");
}

TEST_F(Findings, Details_AreTapesAndRows) {
    records.tapes["other"] = {{true, "three"}};
    records.tapes["tape"].push_back({true, "two"});
    records.inbound[1].details = "done, owner 7";
    EXPECT_EQ(details_of(findings(posted, records), posted, records),
              "tape tape\n  user: one\n  model: re: one\n  user: two\n  model: re: two\n"
              "  user: two\nk1 is 1: \nk2 is 2: done, owner 7\n");
}

TEST_F(Findings, AnswerSentTwice_IsFound) {
    records.outbound.push_back({5, {1}, "sent"});
    EXPECT_EQ(found(), "k1 has 2 answers with a receipt of their own and not 1;");
}

TEST_F(Findings, MissingReceipt_IsFound) {
    records.outbound.front().state = "intended";
    EXPECT_EQ(found(), "the answer 3 is intended and has no receipt;");
}

TEST_F(Findings, WaitingMessage_IsFound) {
    records.inbound.front().is_finished = false;
    EXPECT_EQ(found(), "k1 waits;");
}

TEST_F(Findings, OtherOrder_IsFoundUnlessLate) {
    std::vector<TapeText>& tape = records.tapes["tape"];
    tape = {{true, "two"}, {false, "re: two"}, {true, "one"}, {false, "re: one"}};
    EXPECT_EQ(found(), "k1 is not in the order of arrival;");
    tape[2].is_late = true;
    EXPECT_EQ(found(), "");
    tape[2].is_late = false;
    records.released = {1};
    EXPECT_EQ(found(), "");
}

TEST_F(Findings, RepeatedEffect_IsFound) {
    records.effects["k2"] = 2;
    EXPECT_EQ(found(), "k2 had its effect 2 times;");
}

TEST_F(Findings, LostEffect_IsFoundUnlessMarked) {
    records.effects.clear();
    EXPECT_EQ(found(), "k2 had no effect, and the tape does not say that it is unknown;");
    records.tapes["tape"][2].is_unknown = true;
    EXPECT_EQ(found(), "");
}

TEST_F(Findings, TapeOfTwoSessions_IsFound) {
    const std::vector<Posted> other{{"k1", "s", "one"}, {"k2", "t", "two", true}};
    const std::vector<std::string> list = findings(other, records);
    EXPECT_EQ(list, std::vector<std::string>{"the tape tape has several sessions"});
}

/// The same messages, which a bot has answered.
class FindingsOfBot : public Findings {
protected:
    FindingsOfBot() {
        records.chats.emplace()["s"] = {"re: one \u2026", "re: one", "a notice", "re: two"};
    }
    std::vector<std::string>& texts() { return records.chats->at("s"); }
};

TEST_F(FindingsOfBot, RightTexts_HaveNone) {
    EXPECT_EQ(found(), "");
    texts().emplace_back("(sent again) re: two");
    EXPECT_EQ(found(), "");
}

TEST_F(FindingsOfBot, AnswerSentTwiceWithoutMark_IsFound) {
    texts().emplace_back("re: two");
    EXPECT_EQ(found(), "k2 is answered 2 times without a mark;");
    texts().back() = "(sent again) re: two";
    texts().emplace_back("(sent again) re: two");
    EXPECT_EQ(found(), "");
}

TEST_F(FindingsOfBot, MissingAnswer_IsFoundUnlessMarked) {
    texts().pop_back();
    EXPECT_EQ(found(), "k2 has no answer in its chat;");
    texts().emplace_back("(sent again) re: two");
    EXPECT_EQ(found(), "");
    records.chats->clear();
    EXPECT_EQ(found(), "k1 has no answer in its chat;k2 has no answer in its chat;");
}

TEST_F(FindingsOfBot, OtherOrder_IsFoundUnlessMarked) {
    texts() = {"re: two", "re: one"};
    EXPECT_EQ(found(), "k1 is not answered in the order of arrival;");
    texts().emplace_back("(sent again) re: one");
    EXPECT_EQ(found(), "");
    texts().pop_back();
    records.inbound.front().is_held = true;
    EXPECT_EQ(found(), "");
}

TEST_F(FindingsOfBot, AnswerInOtherChat_IsFound) {
    texts().pop_back();
    (*records.chats)["t"] = {"re: two"};
    EXPECT_EQ(found(), "k2 is answered in the chat t;");
}

/// A client of a gateway with these replies, one list for each time that it sends its request.
class JudgesClient : public ::testing::Test {
protected:
    void post(std::vector<std::vector<HttpReply>> replies) {
        rounds = std::move(replies);
        sent = 0;
        const SendCopies send = [this] { return next(); };
        run(post_until_final(send, {"k1", "s", "one"}, std::chrono::milliseconds(1), wrong,
                             refused));
    }
    static HttpReply reply(int status, const std::string& text) {
        return {status, R"({"outputs":[{"text":")" + text + "\"}]}"};
    }

    std::vector<std::vector<HttpReply>> rounds;
    std::size_t sent = 0;
    std::vector<std::string> wrong;
    std::atomic<std::size_t> refused = 0;

private:
    Task<std::vector<HttpReply>> next() { co_return rounds.at(sent++); }
};

TEST_F(JudgesClient, UnansweredRequest_IsRepeated) {
    const HttpReply lost;
    post({{lost},
          {reply(202, ""), lost},
          {reply(503, "")},
          {reply(429, "")},
          {reply(200, "re: one")}});
    EXPECT_EQ(sent, 5u);
    EXPECT_EQ(refused, 1u);
    EXPECT_TRUE(wrong.empty()) << wrong.front();
}

TEST_F(JudgesClient, OneAnswerOfTwoCopies_IsEnough) {
    post({{reply(503, ""), reply(200, "re: one")}});
    EXPECT_EQ(sent, 1u);
    EXPECT_TRUE(wrong.empty()) << wrong.front();
}

TEST_F(JudgesClient, HeldMessage_IsLeftToTheOperator) {
    post({{reply(409, "")}});
    post({{reply(200, "It is stored until an operator decides.")}});
    EXPECT_TRUE(wrong.empty()) << wrong.front();
}

TEST_F(JudgesClient, WrongReply_IsReportedAndNotRepeated) {
    for (const int status : {200, 400, 422, 500}) {
        post({{reply(status, "re: two")}});
        EXPECT_EQ(sent, 1u);
    }
    ASSERT_EQ(wrong.size(), 4u);
    EXPECT_NE(wrong.front().find("k1 received 200"), std::string::npos) << wrong.front();
}

}  // namespace
}  // namespace cubepi::cluster_tests
