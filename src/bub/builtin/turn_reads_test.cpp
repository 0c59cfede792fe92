// The transactions of turns under a lease on their tapes (D269, D270), counted in the log of the server.

#include <bub/builtin/builtin_test_support.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <bub/questions.hpp>
#include <bub/session_tape.hpp>
#include <bub/tape/postgres_tape_schema.hpp>
#include <bub/tape/postgres_tape_store.hpp>
#include <bub/tape/turn_lease.hpp>
#include <cubepi/checkpoint/postgres_server_test.hpp>
#include <cubepi/testing/manual_clock.hpp>

namespace bub {
namespace {

using cubepi::PostgresServer;
using cubepi::RawPostgres;
using cubepi::run;

/// The transactions on tapes, each as the text of its statements.
struct Transactions {
    std::vector<std::string> reads = {};
    std::vector<std::string> writes = {};
};

Transactions tape_transactions_in(const std::string& log) {
    Transactions found;
    for (const std::vector<std::string>& transaction : cubepi::transactions_in(log)) {
        std::string text;
        for (const std::string& statement : transaction) text += "\n    " + statement;
        const auto contains = [&](const char* name) {
            return text.find(name) != std::string::npos;
        };
        if (contains("bub_tapes") || contains("bub_entries") || contains("bub_turn") ||
            contains("bub_message_ids"))
            (contains("pg_advisory_xact_lock") ? found.writes : found.reads).push_back(text);
    }
    return found;
}

std::string text_of(const std::vector<std::string>& transactions) {
    std::string text;
    for (const std::string& one : transactions) text += "\n  a transaction:" + one;
    return text;
}

/// The number of statements of each transaction.
std::vector<std::ptrdiff_t> sizes_of(const std::vector<std::string>& transactions) {
    std::vector<std::ptrdiff_t> sizes;
    for (const std::string& one : transactions)
        sizes.push_back(std::count(one.begin(), one.end(), '\n'));
    return sizes;
}

struct WorkArgs {
    std::string note;
};

cubepi::AssistantMessage working(std::string id = "c1") {
    return test::calling("work", {{"note", "now"}}, std::move(id));
}

/// A session of a gateway whose turns have leases.
class LeasedTurns : public test::Builtin {
protected:
    LeasedTurns()
        : server(PostgresServer::shared()),
          database(server.create_database(postgres_tape_tables())) {
        options.connection = server.connection(database, "options=-clog_statement=all");
        // No row is older than a turn.
        cubepi::Runtime runtime;
        runtime.clock = clock;
        options.runtime = std::make_shared<const cubepi::Runtime>(std::move(runtime));
        query("CREATE TABLE bub_delivery_sessions (key TEXT, owner BIGINT, fence BIGINT)");
        query("CREATE TABLE bub_delivery_gateways (number BIGINT, lease_until TIMESTAMPTZ)");
        query("INSERT INTO bub_delivery_sessions VALUES ('s', 5, 1)");
        query("INSERT INTO bub_delivery_gateways VALUES (5, now() + interval '1 hour')");
        tapes = std::make_shared<PostgresTapeStore>(options);
    }
    std::vector<std::string> query(const std::string& sql) const {
        return RawPostgres(server.connection(database)).query(sql);
    }
    /// Waits until the process has closed a turn that could not be stored.
    void wait_for_end_of_turns() const {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (query("SELECT count(*) FROM bub_turns").front() != "0") {
            ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "the turn is still open";
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
    }

    void add(std::vector<cubepi::FauxStep> steps) {
        BuiltinOptions how;
        how.tape_store = tapes;
        // As in a gateway.
        TurnQuestions questions;
        questions.policy = [](const cubepi::BeforeToolCallContext&) { return approve(); };
        how.questions = std::move(questions);
        how.model_at_endpoint = [this](const JsonObject&, const std::string&) {
            return faux.model("scripted");
        };
        how.describe_endpoint = [](const cubepi::AssistantMessage&) {
            return JsonObject{{"endpoint", "scripted"}};
        };
        add_builtin(std::move(steps), std::move(how));
        Plugin plugin;
        plugin.name = "lease";
        plugin.load_state = [this](LoadStateCall& call) { return offer_tapes(call); };
        framework->add(std::move(plugin));
    }
    static Task<cubepi::ApprovalDecision> approve() {
        co_return cubepi::ApprovalDecision(cubepi::Approve());
    }
    Task<std::optional<JsonObject>> offer_tapes(LoadStateCall& call) {
        auto leased = std::make_shared<TurnTapes>();
        leased->store = tapes->leased(TurnLease{"s", fence});
        call.state.offer(std::move(leased));
        auto names = std::make_shared<SessionTapes>();
        names->name_space = "test";
        names->earlier_workspace = root;
        call.state.offer(std::move(names));
        co_return std::nullopt;
    }
    /// The lease of the next turns is another one.
    void take_session() {
        ++fence;
        query("UPDATE bub_delivery_sessions SET fence = fence + 1");
    }

    /// Runs the turn of a message, and checks that its output is `expected`.
    Transactions transactions_of(const std::string& id, const std::string& expected) {
        std::string output;
        const std::string log = server.log_of([&] {
            Envelope message = Envelope("hello").on("http", "chat");
            message.inbound_id = id;
            output = run(framework->process_inbound(std::move(message), false)).model_output;
        });
        Transactions found = tape_transactions_in(log);
        EXPECT_EQ(output, expected) << text_of(found.reads);
        return found;
    }
    std::vector<std::string> reads_of(const std::string& id, const std::string& expected) {
        return transactions_of(id, expected).reads;
    }
    void add_tool(const std::string& name, std::function<void()> work) {
        extra_tools.push_back(cubepi::tool<WorkArgs>(name, "Works.", [work](WorkArgs) {
            work();
            return std::string("done");
        }));
    }

    PostgresServer& server;
    std::string database;
    std::shared_ptr<cubepi::testing::ManualClock> clock =
        std::make_shared<cubepi::testing::ManualClock>();
    cubepi::PostgresOptions options;
    std::shared_ptr<PostgresTapeStore> tapes;
    std::int64_t fence = 1;
};

TEST_F(LeasedTurns, D269_PlainTurns_ReadFewTimes) {
    add({faux_assistant_message("one"), faux_assistant_message("two"),
         faux_assistant_message("three")});
    const std::vector<std::string> first = reads_of("m1", "one");
    EXPECT_LE(first.size(), 2U) << text_of(first);
    EXPECT_GE(first.size(), 1U) << "the log has no statements";
    take_session();
    const std::vector<std::string> second = reads_of("m2", "two");
    EXPECT_LE(second.size(), 2U) << text_of(second);
    const std::vector<std::string> same_lease = reads_of("m3", "three");
    EXPECT_LE(same_lease.size(), 2U) << text_of(same_lease);
}

TEST_F(LeasedTurns, D270_PlainTurn_HasFewStatements) {
    using Sizes = std::vector<std::ptrdiff_t>;
    add({faux_assistant_message("one"), faux_assistant_message("two")});
    (void)reads_of("m1", "one");
    take_session();
    const Transactions turn = transactions_of("m2", "two");
    EXPECT_EQ(sizes_of(turn.reads), (Sizes{4, 1})) << text_of(turn.reads);
    // The claim, the message, and the end with the answer and the entries of both.
    EXPECT_EQ(sizes_of(turn.writes), (Sizes{4, 6, 7})) << text_of(turn.writes);
    EXPECT_EQ(text_of(turn.writes).find("t.state"), std::string::npos)
        << "the row is known, so that a write is one round trip\n"
        << text_of(turn.writes);
}

TEST_F(LeasedTurns, D269_ToolCalls_AddFewReads) {
    add_tool("work", [] {});
    add({faux_assistant_message("one"), working(), working("c2"), faux_assistant_message("two")});
    (void)reads_of("m1", "one");
    const std::vector<std::string> reads = reads_of("m2", "two");
    EXPECT_LE(reads.size(), 6U) << text_of(reads);
}

TEST_F(LeasedTurns, D269_SlowSteps_ReadTheClaimAgain) {
    add_tool("work", [this] { clock->advance(std::chrono::minutes(1)); });
    add({faux_assistant_message("one"), working(), faux_assistant_message("two")});
    (void)reads_of("m1", "one");
    const std::vector<std::string> reads = reads_of("m2", "two");
    EXPECT_LE(reads.size(), 7U) << text_of(reads);
}

/// Another gateway takes the session while a tool runs: the turn stores nothing more, and the next one continues what its journal has.
TEST_F(LeasedTurns, D269_ResumedTurn_ReadsFewTimes) {
    bool is_taken = false;
    add_tool("work", [this, &is_taken] {
        if (!std::exchange(is_taken, true)) query("UPDATE bub_delivery_sessions SET fence = 2");
    });
    add({working(), faux_assistant_message("two")});
    Envelope message = Envelope("hello").on("http", "chat");
    message.inbound_id = "m1";
    EXPECT_THROW(run(framework->process_inbound(std::move(message), false)), SessionTakenError);
    fence = 2;
    wait_for_end_of_turns();
    const std::vector<std::string> reads = reads_of("m1", "two");
    EXPECT_LE(reads.size(), 16U) << text_of(reads);
    const std::vector<std::string> repeated = reads_of("m1", "two");
    EXPECT_LE(repeated.size(), 4U) << text_of(repeated);
}

}  // namespace
}  // namespace bub
