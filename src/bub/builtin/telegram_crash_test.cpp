// The process is killed at each call of the Bot API, before and after the service has executed it, and started again.

#include <bub/builtin/telegram_bot_test_support.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <stdexcept>

namespace bub {
namespace {

namespace fs = std::filesystem;

/// A death of the process at a call.
struct Death {
    std::size_t call = 0;  ///< the number of the call, from 0
    Fault fault = Fault::none;
};

class TelegramCrash : public TelegramBot {
public:
    /// From now on, the process dies at this call: what its files have then is what the next process finds, and none of its later
    /// calls reaches the service.
    void die_at(Death death) {
        calls_ = 0;
        is_dead = false;
        api.on_call = [this, death](const std::string&, std::size_t) {
            if (is_dead) return Fault::cut_before;
            if (calls_++ != death.call) return Fault::none;
            is_dead = true;
            take_snapshot();
            return death.fault;
        };
    }
    bool died() const { return is_dead; }

    /// Starts the next process with the files of the dead one.
    void start_again(std::vector<cubepi::FauxStep> steps) {
        manager.reset();
        framework.reset();
        deliveries.reset();
        if (is_dead) copy_files(root / "snapshot", root);
        api.on_call = nullptr;
        is_dead = false;
        restart();
        add(std::move(steps));
    }
    /// Waits until the condition holds or the process is dead.
    Task<> until(std::function<bool()> condition) {
        while (!is_dead && !condition()) co_await clock->sleep_for(std::chrono::milliseconds(100));
    }
    std::size_t count_texts(std::int64_t chat, std::string_view text) const {
        const std::vector<std::string> all = api.texts(chat);
        return static_cast<std::size_t>(std::count(all.begin(), all.end(), text));
    }
    std::string description(Death death) const {
        std::string text = "killed at call " + std::to_string(death.call) +
                           (death.fault == Fault::cut_before ? ", before" : ", after");
        for (const std::int64_t chat : {7, 8, 9}) {
            for (const std::string& one : api.texts(chat)) text += "\n  " + one;
        }
        return text + "\n" + warnings;
    }

private:
    /// The process continues while it is copied: a file that has just been replaced is not found, and the copy begins again.
    void take_snapshot() {
        for (int tries = 0;; ++tries) {
            try {
                copy_files(root, root / "snapshot");
                return end_owners(root / "snapshot" / "home");
            } catch (const fs::filesystem_error&) {
                if (tries == 100) throw;
            }
        }
    }
    /// The runs in the files belong to this process, which is alive: their owner becomes a process of the same id that started earlier.
    static void end_owners(const fs::path& directory) {
        for (const fs::directory_entry& entry : fs::recursive_directory_iterator(directory)) {
            if (entry.path().extension() != ".state") continue;
            std::ifstream in(entry.path());
            const std::string text((std::istreambuf_iterator<char>(in)),
                                   std::istreambuf_iterator<char>());
            const std::regex start("\"process_start\": [0-9]+");
            std::ofstream(entry.path()) << std::regex_replace(text, start, "\"process_start\": 1");
        }
    }
    static void copy_files(const fs::path& from, const fs::path& to) {
        fs::create_directories(to);
        for (const char* directory : {"deliveries", "home"}) {
            fs::remove_all(to / directory);
            if (fs::exists(from / directory))
                fs::copy(from / directory, to / directory, fs::copy_options::recursive);
        }
    }

    std::size_t calls_ = 0;
};

/// A model that presses the button until it was pressed.
std::vector<cubepi::FauxStep> pressing() {
    const auto step = [](const cubepi::MessageList& messages, const cubepi::Model&) {
        const bool was_pressed = !messages.empty() && messages.back().tool_result() != nullptr;
        return was_pressed ? cubepi::faux_assistant_message("All done.") : test::calling("press");
    };
    return std::vector<cubepi::FauxStep>(8, cubepi::FauxStep(step));
}

/// Each death in a test of its own: the files, the service and the chat start from scratch.
std::vector<Death> deaths() {
    std::vector<Death> all;
    for (std::size_t call = 0; call < 16; ++call) {
        all.push_back({call, Fault::cut_before});
        all.push_back({call, Fault::cut_after});
    }
    return all;
}

class TelegramCrashAt : public TelegramCrash, public testing::WithParamInterface<Death> {};

TEST_P(TelegramCrashAt, B18_EachMessageIsAnsweredOnceOrWithAMark) {
    add(std::vector<cubepi::FauxStep>(8, "the answer"));
    api.say(7, "one");
    api.say(8, "two");
    die_at(GetParam());
    const auto answered = [this] { return api.texts(7).size() >= 1 && api.texts(8).size() >= 1; };
    serve([&](TelegramBot&) { return until(answered); });
    start_again(std::vector<cubepi::FauxStep>(8, "the answer"));
    serve([&](TelegramBot& t) -> Task<> {
        for (int tries = 0; tries < max_tries && !answered(); ++tries)
            co_await t.clock->sleep_for(std::chrono::milliseconds(100));
        EXPECT_TRUE(answered()) << description(GetParam());
        // The records of the killed process are settled before.
        co_await t.clock->sleep_for(std::chrono::seconds(60));
        co_await t.manager->idle();
    });
    for (const std::int64_t chat : {7, 8}) {
        EXPECT_EQ(
            count_texts(chat, "the answer") +
                (api.texts(chat).size() == 1 ? count_texts(chat, "(sent again) the answer") : 0),
            1u)
            << description(GetParam());
        EXPECT_LE(api.texts(chat).size(), 2u) << description(GetParam());
    }
    EXPECT_TRUE(cubepi::run(deliveries->unsettled()).empty()) << description(GetParam());
    EXPECT_TRUE(cubepi::run(deliveries->unfinished()).empty()) << description(GetParam());
}

TEST_P(TelegramCrashAt, B24_AnApprovedToolRunsOnce) {
    add(pressing());
    api.say(9, "Press it");
    const auto ask_until_done = [this](bool dies) -> Task<> {
        std::int64_t pressed_button = 0;
        int tries = 0;
        while (api.texts(9).empty() ||
               count_texts(9, "All done.") + count_texts(9, "(sent again) All done.") == 0) {
            if (dies && died()) co_return;
            if (++tries == max_tries) throw std::runtime_error(description(GetParam()));
            for (const FakeMessage& message : api.messages(9)) {
                const bool is_open = message.text.find("Run press") != std::string::npos &&
                                     !message.markup.empty() && message.id > pressed_button;
                if (!is_open) continue;
                pressed_button = message.id;
                if (boost::json::serialize(message.markup).find("\"over\"") == std::string::npos)
                    api.press(9, message.id, 0, 0);
            }
            co_await clock->sleep_for(std::chrono::milliseconds(500));
        }
    };
    die_at(GetParam());
    serve([&](TelegramBot&) { return ask_until_done(true); });
    start_again(pressing());
    serve([&](TelegramBot& t) -> Task<> {
        co_await ask_until_done(false);
        co_await t.clock->sleep_for(std::chrono::seconds(60));
        co_await t.manager->idle();
    });
    EXPECT_EQ(pressed, 1) << description(GetParam());
    EXPECT_LE(count_texts(9, "All done."), 1u) << description(GetParam());
}

INSTANTIATE_TEST_SUITE_P(, TelegramCrashAt, testing::ValuesIn(deaths()), [](const auto& info) {
    return (info.param.fault == Fault::cut_before ? "Before" : "After") +
           std::to_string(info.param.call);
});

}  // namespace
}  // namespace bub
