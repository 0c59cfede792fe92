// Files that Python CubePi wrote: they load with equal content, and can be written on.
#include <cubepi/checkpoint/sqlite_checkpointer.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/checkpoint/format/stored_message_reader.hpp>
#include <cubepi/checkpoint/store_fixtures_test.hpp>
#include <cubepi/checkpoint/store_support_test.hpp>
#include <cubepi/core/message_json.hpp>
#include <cubepi/schema/python_json.hpp>

namespace cubepi {
namespace {

std::vector<std::string> fixture_names() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(databases)) {
        if (entry.path().extension() == ".sqlite") names.push_back(entry.path().stem().string());
    }
    std::sort(names.begin(), names.end());
    return names;
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
