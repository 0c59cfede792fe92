// Files that Python CubePi wrote: they load with equal content, and can be written on.
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/checkpoint/format/stored_message_reader.hpp>
#include <cubepi/checkpoint/store_support_test.hpp>
#include <cubepi/core/message_json.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi {
namespace {

const std::filesystem::path databases = CUBEPI_TEST_DATABASES;

std::string read_file(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<std::string> fixture_names() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(databases)) {
        if (entry.path().extension() == ".sqlite") names.push_back(entry.path().stem().string());
    }
    std::sort(names.begin(), names.end());
    return names;
}

/// Equal as README-fixtures.md says: numbers by value, and what JSON does not know may be anything.
bool same(const Json& wanted, const Json& found) {
    if (wanted.is_string() && wanted.get_string().starts_with("<") &&
        wanted.get_string().ends_with(">"))
        return true;
    if (wanted.is_number() && found.is_number())
        return wanted.to_number<double>() == found.to_number<double>();
    if (wanted.is_array() && found.is_array()) {
        const JsonArray& a = wanted.get_array();
        const JsonArray& b = found.get_array();
        return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), same);
    }
    if (wanted.is_object() && found.is_object()) {
        const JsonObject& a = wanted.get_object();
        const JsonObject& b = found.get_object();
        return a.size() == b.size() && std::all_of(a.begin(), a.end(), [&](const auto& member) {
                   const Json* other = b.if_contains(member.key());
                   return other && same(member.value(), *other);
               });
    }
    return wanted == found;
}

/// The message as CubePi dumps it: without what is ours or of a newer writer.
JsonObject as_cubepi(const Message& message) {
    JsonObject json = to_json(message);
    json.erase("future");
    return json;
}

class Fixture : public ::testing::TestWithParam<std::string> {
protected:
    void SetUp() override {
        for (const char* suffix : {".sqlite", ".sqlite-wal"}) {
            const std::filesystem::path source = databases / (GetParam() + suffix);
            if (!std::filesystem::exists(source)) continue;
            std::ofstream(directory.file(GetParam() + suffix), std::ios::binary)
                << read_file(source);
        }
        wanted =
            parse_lenient(read_file(databases / (GetParam() + ".json"))).at("threads").as_object();
    }
    std::string path() const { return directory.file(GetParam() + ".sqlite"); }

    TempDirectory directory;
    JsonObject wanted;
};

void expect_messages(const Json& wanted, const MessageList& found, const std::string& where) {
    ASSERT_EQ(wanted.as_array().size(), found.size()) << where;
    for (std::size_t i = 0; i < found.size(); ++i) {
        const JsonObject json = as_cubepi(found[i]);
        EXPECT_TRUE(same(wanted.as_array()[i], json))
            << where << " message " << i << "\nwanted " << wanted.as_array()[i] << "\nfound "
            << Json(json);
    }
}

void expect_thread(SQLiteCheckpointer& store, const std::string& thread_id,
                   const JsonObject& thread) {
    std::optional<CheckpointData> data = run(store.load(thread_id));
    if (thread.at("messages").is_null()) {
        EXPECT_FALSE(data) << thread_id;
        return;
    }
    ASSERT_TRUE(data) << thread_id;
    expect_messages(thread.at("messages"), data->messages, thread_id);
    EXPECT_TRUE(same(thread.at("extra"), data->extra)) << thread_id << " " << Json(data->extra);
    const Json parent = data->parent_thread_id ? Json(*data->parent_thread_id) : Json(nullptr);
    EXPECT_EQ(thread.at("parent_thread_id"), parent) << thread_id;
}

void expect_approvers(SQLiteCheckpointer& store, const std::string& thread_id,
                      const JsonObject& thread) {
    const std::vector<PendingRequest> pending = run(store.load_pending_requests(thread_id));
    if (thread.at("pending").is_null()) {
        EXPECT_TRUE(pending.empty()) << thread_id;
    } else {
        ASSERT_EQ(pending.size(), 1U) << thread_id;
        const Json& wanted = thread.at("pending");
        EXPECT_TRUE(same(wanted.at("request"), to_json(pending[0].request))) << thread_id;
        const Json& run_id = wanted.at("run_id");
        EXPECT_EQ(pending[0].run_id, run_id.is_null() ? "" : run_id.as_string()) << thread_id;
    }
    for (const Json& answer : thread.at("answers").as_array()) {
        const std::string run_id(answer.at("run_id").as_string());
        const std::string question_id(answer.at("question_id").as_string());
        const std::optional<Json> found =
            run(store.load_hitl_answer(thread_id, run_id, question_id));
        ASSERT_TRUE(found) << thread_id << " " << question_id;
        EXPECT_TRUE(same(answer.at("answer"), *found)) << thread_id << " " << question_id;
    }
}

void expect_runs(SQLiteCheckpointer& store, const std::string& thread_id,
                 const JsonObject& thread) {
    for (const Json& entry : thread.at("runs").as_array()) {
        const std::string run_id(entry.at("run_id").as_string());
        const bool complete = !entry.at("completed_at").is_null();
        EXPECT_EQ(run(store.is_run_complete(thread_id, run_id)), complete) << run_id;
        Task<ClaimResult> claim =
            store.claim_run(thread_id, run_id, ClaimOwner(), ClaimKind::new_run);
        EXPECT_EQ(error_of(std::move(claim)).code(),
                  complete ? ErrorCode::run_already_completed : ErrorCode::run_already_claimed);
        if (complete) {
            Task<std::int64_t> append =
                store.append(thread_id, one(user("late", run_id)), AppendOptions());
            EXPECT_EQ(error_of(std::move(append)).code(), ErrorCode::run_already_completed);
        }
    }
    for (const auto& [run_id, indexes] : thread.at("snapshots").as_object()) {
        JsonArray messages;
        for (const Json& index : indexes.as_array()) {
            messages.push_back(thread.at("messages").as_array()[index.to_number<std::size_t>()]);
        }
        const std::string fork_id = "fork of " + thread_id + " after " + std::string(run_id);
        expect_messages(messages, run(store.snapshot(thread_id, std::string(run_id))), fork_id);
        run(store.fork(thread_id, fork_id, std::string(run_id), std::nullopt));
        std::optional<CheckpointData> forked = run(store.load(fork_id));
        ASSERT_TRUE(forked);
        expect_messages(messages, forked->messages, fork_id);
    }
}

TEST_P(Fixture, D21_loads_with_equal_content) {
    SQLiteCheckpointer store(path());
    for (const auto& [key, value] : wanted) {
        const std::string thread_id = key;
        const JsonObject& thread = value.as_object();
        if (thread.contains("error")) {
            const auto error = error_of<CheckpointCorruptionError>(store.load(thread_id));
            EXPECT_EQ(error.row_ref(), thread.at("row_ref").as_string());
            EXPECT_EQ(error.backend(), thread.at("backend").as_string());
            EXPECT_EQ(error.thread_id(), thread_id);
            continue;
        }
        expect_thread(store, thread_id, thread);
        expect_approvers(store, thread_id, thread);
        expect_runs(store, thread_id, thread);
    }
}

TEST_P(Fixture, D21_can_be_written_on_and_no_row_of_cubepi_changes) {
    const std::string rows =
        "SELECT id, thread_id, message_json, created_at, run_id FROM messages WHERE thread_id"
        " <> 'new' AND message_json NOT LIKE '%written on%' ORDER BY id";
    const bool has_run_ids = GetParam().rfind("old-schema", 0) != 0;
    std::vector<std::string> before;
    if (has_run_ids) before = RawDatabase(path()).query(rows);
    const auto extras = RawDatabase(path()).query(
        "SELECT thread_id, extra_json FROM thread_extra ORDER BY thread_id");
    {
        SQLiteCheckpointer store(path());
        for (const auto& [key, value] : wanted) {
            const std::string thread_id = key;
            if (value.as_object().contains("error")) continue;
            const CheckpointData data = run(store.load(thread_id)).value_or(CheckpointData());
            AppendOptions options =
                AppendOptions().expected_position(data.position).extra(JsonObject(data.extra));
            run(store.claim_run(thread_id, "run-of-ours", ClaimOwner(), ClaimKind::new_run));
            run(store.append(thread_id, one(user("written on", "run-of-ours", "id")),
                             std::move(options)));
            run(store.mark_run_complete(thread_id, "run-of-ours"));
            EXPECT_EQ(run(store.load(thread_id))->messages.size(), data.messages.size() + 1);
            EXPECT_TRUE(run(store.find_message(thread_id, "id")));
        }
    }
    if (has_run_ids) {
        EXPECT_EQ(RawDatabase(path()).query(rows), before);
    }
    const auto extras_after = RawDatabase(path()).query(
        "SELECT thread_id, extra_json FROM thread_extra ORDER BY thread_id");
    for (std::size_t i = 0; i + 1 < extras.size(); i += 2) {
        const auto row = std::find(extras_after.begin(), extras_after.end(), extras[i]);
        ASSERT_NE(row, extras_after.end());
        EXPECT_EQ(*(row + 1), extras[i + 1]) << "extra that did not change keeps its text";
    }
    EXPECT_EQ(RawDatabase(path()).query("PRAGMA integrity_check").front(), "ok");
}

TEST_P(Fixture, both_readers_agree_on_every_row) {
    RawDatabase raw(path());
    detail::StoredMessageReader reader;
    for (const std::string& text : raw.query("SELECT message_json FROM messages")) {
        std::optional<Message> slow;
        try {
            slow = message_from_json(parse_lenient(text));
        } catch (const Error&) {
            EXPECT_THROW(reader.read(text), Error) << text;
        }
        if (slow) {
            EXPECT_EQ(to_json(reader.read(text)), to_json(*slow)) << text;
        }
    }
}

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
    std::string name = info.param;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

INSTANTIATE_TEST_SUITE_P(Databases, Fixture, ::testing::ValuesIn(fixture_names()), test_name);

TEST(Fixtures, are_there) { EXPECT_GE(fixture_names().size(), 15U); }

}  // namespace
}  // namespace cubepi
