#include <bub/channel/file_delivery_log.hpp>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <bub/channel/channel_test_support.hpp>
#include <bub/channel/debounce.hpp>
#include <bub/channel/delivery_log_suite_test.hpp>
#include <bub/questions.hpp>
#include <cubepi/checkpoint/store_check_test.hpp>
#include <cubepi/core/cancellation.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/testing/memory_log.hpp>

namespace bub::channel_tests {
namespace {

using Texts = std::vector<std::string>;

class DeliveryFile : public testing::Test {
protected:
    DeliveryFile() {
        std::string name =
            (std::filesystem::temp_directory_path() / "bub-deliveries-XXXXXX").string();
        if (!mkdtemp(name.data())) throw std::runtime_error("no directory for temporary files");
        root = name;
        options.directory = root / "deliveries";
        options.clock = std::make_shared<ManualClock>();
        options.on_warning = [this](std::string text) { warnings.push_back(std::move(text)); };
    }
    ~DeliveryFile() override {
        std::error_code ignored;
        std::filesystem::remove_all(root, ignored);
    }

    std::unique_ptr<FileDeliveryLog> open() const {
        return std::make_unique<FileDeliveryLog>(options);
    }
    std::filesystem::path file() const { return options.directory / "deliveries.jsonl"; }
    std::string bytes() const {
        std::ifstream in(file(), std::ios::binary);
        return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    }
    void set_bytes(std::string_view text) const { std::ofstream(file(), std::ios::binary) << text; }
    std::size_t lines() const {
        const std::string text = bytes();
        return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
    }

    std::filesystem::path root;
    FileDeliveryLogOptions options;
    Texts warnings;
};

Envelope update(const std::string& text, const std::string& id) {
    Envelope message = from("chat", "1", text);
    message.inbound_id = id;
    return message;
}

std::string store(FileDeliveryLog& log, const std::string& text) {
    return cubepi::run(log.receive(update(text, text))).value_or("known");
}

std::string intend(FileDeliveryLog& log, const std::string& text, Texts answers = {}) {
    return cubepi::run(log.intend(from("chat", "1", text), std::move(answers)));
}

Texts texts_of(FileDeliveryLog& log) {
    Texts all;
    for (const StoredInbound& inbound : cubepi::run(log.unfinished()))
        all.push_back(inbound.message.content_text());
    for (const Delivery& delivery : cubepi::run(log.unsettled()))
        all.push_back(delivery.message.content_text());
    return all;
}

cubepi::ErrorCode code_of(const std::function<void()>& call) {
    try {
        call();
    } catch (const cubepi::Error& error) {
        return error.code();
    }
    return cubepi::ErrorCode::unknown;
}

TEST_F(DeliveryFile, IrregularFile_IsRejectedWithoutBlocking) {
    std::filesystem::create_directories(options.directory);
    ASSERT_EQ(mkfifo(file().c_str(), 0600), 0);
    const auto log = open();
    try {
        (void)store(*log, "one");
        FAIL() << "it was stored";
    } catch (const cubepi::Error& error) {
        EXPECT_EQ(error.code(), cubepi::ErrorCode::storage);
        const std::string wanted = "cannot open " + file().string() + ": it is a pipe";
        EXPECT_TRUE(std::string_view(error.what()).starts_with(wanted)) << error.what();
    }
}

TEST_F(DeliveryFile, B18_CutOffLine_IsTakenBackWhereverCut) {
    {
        const auto log = open();
        store(*log, "one");
        intend(*log, "re: one");
    }
    const std::string whole = bytes();
    const std::size_t before = whole.rfind('\n', whole.size() - 2) + 1;
    for (std::size_t size = before; size < whole.size(); ++size) {
        set_bytes(whole.substr(0, size));
        {
            const auto log = open();
            EXPECT_EQ(texts_of(*log), Texts{"one"}) << size;
            intend(*log, "re: two");
        }
        EXPECT_EQ(texts_of(*open()), (Texts{"one", "re: two"})) << size;
    }
    EXPECT_TRUE(warnings.empty());
}

TEST_F(DeliveryFile, B18_Log_IsUsedByOneProcessOnly) {
    auto first = open();
    store(*first, "one");
    const auto second = open();
    EXPECT_EQ(code_of([&] { store(*second, "two"); }), cubepi::ErrorCode::storage_locked);
    first.reset();
    EXPECT_EQ(store(*second, "two"), "2");
}

/// Limits every file to `bytes`, to simulate a full disk.
class FullDisk {
public:
    explicit FullDisk(std::size_t bytes) {
        (void)signal(SIGXFSZ, SIG_IGN);
        if (getrlimit(RLIMIT_FSIZE, &default_) != 0) throw std::runtime_error("no limits");
        struct rlimit tight = default_;
        tight.rlim_cur = bytes;
        if (setrlimit(RLIMIT_FSIZE, &tight) != 0) throw std::runtime_error("no limit of sizes");
    }
    ~FullDisk() { (void)setrlimit(RLIMIT_FSIZE, &default_); }
    FullDisk(const FullDisk&) = delete;
    FullDisk& operator=(const FullDisk&) = delete;

private:
    struct rlimit default_{};
};

TEST_F(DeliveryFile, B18_FullDisk_RefusesAndSaysSo) {
    const auto log = open();
    {
        const FullDisk disk(0);
        EXPECT_EQ(code_of([&] { store(*log, "one"); }), cubepi::ErrorCode::storage_full);
    }
    EXPECT_EQ(store(*log, "one"), "1") << "the same message may come again";
}

TEST_F(DeliveryFile, B18_WriteFailingMidway_LeavesNothingBehind) {
    const auto log = open();
    store(*log, "one");
    const std::string before = bytes();
    {
        const FullDisk disk(before.size() + 20);
        EXPECT_THROW(store(*log, "two"), cubepi::Error);
        EXPECT_THROW(intend(*log, "re: one"), cubepi::Error);
    }
    EXPECT_EQ(bytes(), before);
    EXPECT_EQ(texts_of(*log), Texts{"one"});
    EXPECT_EQ(store(*log, "two"), "2");
}

TEST_F(DeliveryFile, B18_UnreadableLine_CostsOnlyItself) {
    {
        const auto log = open();
        store(*log, "one");
        store(*log, "two");
    }
    std::string text = bytes();
    text.insert(text.find('\n') + 1, "{\"in\": 7, \"messa\xff\n[]\n");
    set_bytes(text);
    const cubepi::testing::MemoryLog lines;
    options.log = lines.logger();
    const auto log = open();
    EXPECT_EQ(texts_of(*log), (Texts{"one", "two"}));
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_NE(warnings[0].find("2 lines"), std::string::npos);
    EXPECT_EQ(lines.text(), "<4>delivery_log.damaged lines=2\n");
    EXPECT_TRUE(std::filesystem::exists(options.directory / "deliveries.damaged"));
}

TEST_F(DeliveryFile, B18_UnassignedId_DoesNotConsumeIds) {
    std::filesystem::create_directories(options.directory);
    set_bytes(
        "{\"deliveries\":1,\"next\":18446744073709551615}\n"
        "{\"in\":18446744073709551615,\"message\":{}}\n");
    const auto log = open();
    const auto first = cubepi::run(log->receive(update("one", "1")));
    const auto second = cubepi::run(log->receive(update("two", "2")));
    ASSERT_TRUE(first && second);
    EXPECT_NE(*first, *second);
    EXPECT_EQ(cubepi::run(log->unfinished()).size(), 2u);
}

TEST_F(DeliveryFile, FileOfLaterVersion_IsLeftAlone) {
    std::filesystem::create_directories(options.directory);
    const std::string text = "{\"deliveries\": 2}\n";
    set_bytes(text);
    const auto log = open();
    EXPECT_EQ(code_of([&] { store(*log, "one"); }), cubepi::ErrorCode::schema_mismatch);
    EXPECT_EQ(bytes(), text);
}

TEST_F(DeliveryFile, D208_FileOfLaterReadableVersion_IsContinued) {
    std::filesystem::create_directory(options.directory);
    set_bytes(R"({"deliveries": 2, "readable_from": 1, "next": 5})"
              "\n");
    {
        const auto log = open();
        EXPECT_EQ(store(*log, "new"), "5");
    }
    EXPECT_EQ(texts_of(*open()), Texts{"new"});
}

TEST_F(DeliveryFile, D209_Check_NamesDamageAndHeldAnswers) {
    EXPECT_THROW(check_delivery_log(options.directory), cubepi::Error);
    EXPECT_FALSE(std::filesystem::exists(options.directory)) << "a check only reads";
    const auto log = open();
    const std::string first = store(*log, "one");
    store(*log, "two");
    cubepi::run(log->begin(Texts{first}));
    (void)intend(*log, "re: one", Texts{first});
    const std::string sound = bytes();
    const cubepi::StoreReport report = check_delivery_log(options.directory);
    EXPECT_EQ(numbers_in(report), "unfinished messages 2; unsettled answers 1; ");
    EXPECT_EQ(damage_in(report) + repairs_in(report), "");
    EXPECT_NE(notes_in(report).find("whether it arrived is not known"), std::string::npos);
    EXPECT_EQ(bytes(), sound);
    set_bytes(sound + "{\"in\": 7}\n\xff\x1b[2J\n{\"in\": 8, \"mess");
    const cubepi::StoreReport damaged = check_delivery_log(options.directory);
    EXPECT_EQ(damaged.damages(), 2U) << damage_in(damaged);
    EXPECT_NE(repairs_in(damaged).find("it has no line feed"), std::string::npos);
    set_bytes("{\"deliveries\": 2}\n");
    EXPECT_EQ(check_delivery_log(options.directory).damages(), 1U);
}

TEST_F(DeliveryFile, B14_File_DoesNotGrowWithSettledRecords) {
    options.compact_bytes = 4096;
    options.remembered = 10;
    options.sync = DeliverySync::never;
    {
        const auto log = open();
        store(*log, "stays");
        cubepi::run(log->begin(Texts(1, "1")));
        const std::string held = intend(*log, "held");
        cubepi::run(log->resend(held));
        for (int i = 0; i < 300; ++i) {
            const std::string text = "message " + std::to_string(i);
            const std::string id = store(*log, text);
            cubepi::run(log->sent(intend(*log, "re: " + text, Texts(1, id))));
            cubepi::run(log->finish(Texts(1, id)));
        }
        EXPECT_LT(bytes().size(), 10'000u);
    }
    const auto log = open();
    const std::vector<StoredInbound> inbounds = cubepi::run(log->unfinished());
    ASSERT_EQ(inbounds.size(), 1u);
    EXPECT_EQ(inbounds[0].begun, 1u);
    const std::vector<Delivery> deliveries = cubepi::run(log->unsettled());
    ASSERT_EQ(deliveries.size(), 1u);
    EXPECT_EQ(deliveries[0].resent, 1u);
    EXPECT_EQ(store(*log, "message 299"), "known");
    EXPECT_EQ(store(*log, "stays"), "known") << "because it is not finished";
    EXPECT_EQ(store(*log, "message 1"), "603") << "ids are not used twice";
}

TEST_F(DeliveryFile, D97_FinishedMessage_IsFoundAfterRewrite) {
    std::filesystem::create_directories(options.directory);
    // As an older version writes it.
    set_bytes("{\"deliveries\": 1, \"next\": 1}\n{\"known\": \"chat\", \"ids\": [\"old\"]}\n");
    options.compact_bytes = 1;
    std::unique_ptr<FileDeliveryLog> log = open();
    const auto find = [&log](const std::string& id) { return cubepi::run(log->find("chat", id)); };
    const std::string id = store(*log, "one");
    EXPECT_EQ(find("one")->id, id);
    EXPECT_EQ(find("one")->message.content_text(), "one");
    cubepi::run(log->finish({id}));
    Envelope stop = from("chat", "1", "/stop");
    stop.inbound_id = "stop";
    stop.context["sender_id"] = "ann";
    const std::optional<std::string> stored = cubepi::run(log->receive(withdrawal_of(stop)));
    cubepi::run(log->finish({*stored}));
    log.reset();
    // The second process reads what the first one has rewritten.
    for (int processes = 0; processes < 2; ++processes) {
        log = open();
        EXPECT_TRUE(find("stop")->message.rest.contains(stop_key));
        EXPECT_EQ(sender_of(find("stop")->message), "ann");
        EXPECT_FALSE(find("one")->message.rest.contains(stop_key));
        EXPECT_TRUE(find("one")->message.context.empty());
        log.reset();
    }
    log = open();
    EXPECT_EQ(find("one")->id, "");
    EXPECT_EQ(find("one")->message.chat_id, "1");
    EXPECT_EQ(find("old")->message.chat_id, "");
    EXPECT_FALSE(find("two"));
    EXPECT_FALSE(cubepi::run(log->find("other", "one")));
}

TEST_F(DeliveryFile, D292_OpenMessageOfEarlierVersion_HasItsSender) {
    std::filesystem::create_directories(options.directory);
    // As an earlier version has rewritten it while the message waited.
    set_bytes(
        "{\"deliveries\": 1, \"next\": 2}\n{\"known\": \"chat\", \"ids\": [\"one\"], \"chats\": "
        "[\"1\"]}\n"
        "{\"in\": 1, \"at\": \"\", \"message\": {\"inbound_id\": \"one\", \"answer\": null,"
        " \"fields\": {\"content\": \"one\", \"channel\": \"chat\", \"chat_id\": \"1\","
        " \"context\": {\"sender_id\": \"ann\"}}}}\n");
    std::unique_ptr<FileDeliveryLog> log = open();
    const auto open_one = cubepi::run(log->find("chat", "one"));
    EXPECT_EQ(sender_of(open_one->message), "ann");
    cubepi::run(log->finish({open_one->id}));
    EXPECT_EQ(sender_of(cubepi::run(log->find("chat", "one"))->message), "ann");
}

TEST_F(DeliveryFile, B14_TooManyUnsettledRecords_RefuseMessagesOnly) {
    options.max_open = 2;
    const auto log = open();
    store(*log, "one");
    intend(*log, "held");
    EXPECT_EQ(code_of([&] { store(*log, "two"); }), cubepi::ErrorCode::storage_full);
    const std::string answer = intend(*log, "re: one");
    cubepi::run(log->sent(answer));
    cubepi::run(log->finish(Texts(1, "1")));
    EXPECT_EQ(store(*log, "two"), "4");
}

TEST_F(DeliveryFile, File_IsForItsOwnerOnly) {
    const auto log = open();
    store(*log, "secret");
    struct stat info{};
    ASSERT_EQ(stat(file().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777u, 0600u);
}

/// The fields of answers as an earlier version has stored them.
std::vector<JsonObject> older_answers() {
    std::vector<JsonObject> all{
        {{"content", ",deny 0123456789 not now"}},
        {{"content", "teal"}, {"answer_to", "0123456789"}},
        {{"answer_to", "0123456789"}, {"answer", {{"decision", "approve"}}}},
        {{"answer_to", "0123456789"}, {"answer_choice", 2}},
        {{"answer_to", "0123456789"}, {"answer_choice", {{0, 1}, {1, 2}}}},
        {{"content", ",help"}},
    };
    for (JsonObject& fields : all) {
        fields["channel"] = "chat";
        fields["chat_id"] = "1";
        fields["context"] = JsonObject{{"sender_id", "ann"}};
    }
    return all;
}

void expect_older_answers(DeliveryLog& log) {
    const std::vector<StoredInbound> stored = cubepi::run(log.unfinished());
    ASSERT_EQ(stored.size(), older_answers().size());
    for (const StoredInbound& one : stored) {
        EXPECT_FALSE(one.message.rest.contains("answer_to"));
        if (&one == &stored.back()) continue;
        ASSERT_TRUE(one.message.answer) << one.id;
        EXPECT_EQ(one.message.answer->question, "0123456789");
        EXPECT_EQ(one.message.answer->user, "ann");
        EXPECT_EQ(one.message.answer->place, "chat:1");
    }
    EXPECT_FALSE(stored.back().message.answer);
    EXPECT_EQ(stored[0].message.answer->action, AnswerAction::deny);
    EXPECT_EQ(stored[0].message.answer->text, "not now");
    EXPECT_EQ(stored[1].message.answer->text, "teal");
    EXPECT_EQ(stored[2].message.answer->value, Json({{"decision", "approve"}}));
    using Choices = std::vector<std::pair<std::size_t, std::size_t>>;
    EXPECT_EQ(stored[3].message.answer->choices, (Choices{{0, 2}}));
    EXPECT_EQ(stored[4].message.answer->choices, (Choices{{0, 1}, {1, 2}}));
}

TEST_F(DeliveryFile, B24_AnswersOfEarlierVersion_AreRead) {
    for (const JsonObject& fields : older_answers())
        (void)cubepi::run(open()->receive(Envelope(fields)));
    std::string older = bytes();
    const std::string member = ", \"answer\": null";
    for (std::size_t at = 0; (at = older.find(member)) != std::string::npos;)
        older.erase(at, member.size());
    set_bytes(older);
    expect_older_answers(*open());
}

class FileStorage final : public DeliveryStorage {
public:
    /// `compact_bytes`: 1 rewrites the file at each call.
    explicit FileStorage(std::size_t compact_bytes) {
        std::string name =
            (std::filesystem::temp_directory_path() / "bub-deliveries-XXXXXX").string();
        if (!mkdtemp(name.data())) throw std::runtime_error("no directory for temporary files");
        root_ = name;
        options_.directory = root_ / "deliveries";
        options_.sync = DeliverySync::never;
        options_.compact_bytes = compact_bytes;
    }
    ~FileStorage() override {
        std::error_code ignored;
        std::filesystem::remove_all(root_, ignored);
    }
    std::shared_ptr<DeliveryLog> open() override {
        return std::make_shared<FileDeliveryLog>(options_);
    }

private:
    std::filesystem::path root_;
    FileDeliveryLogOptions options_;
};

DeliveryStorageKind files(std::string name, std::size_t compact_bytes) {
    return {std::move(name),
            [compact_bytes] { return std::make_unique<FileStorage>(compact_bytes); }};
}

INSTANTIATE_TEST_SUITE_P(Files, DeliveryLogSuite,
                         testing::Values(files("appended", 1 << 20), files("rewritten", 1)),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace bub::channel_tests
