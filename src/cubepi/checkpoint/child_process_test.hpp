#pragma once

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cubepi/agent/checkpointer.hpp>
#include <cubepi/agent/claim_owner.hpp>
#include <cubepi/agent/question_store.hpp>
#include <cubepi/checkpoint/store_values_test.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/testing/manual_clock.hpp>

// Child processes of the tests of stores, and their work.

namespace cubepi {

/// This program with `--child MODE PATH`, with pipes to its standard input and output.
class Child {
public:
    Child(const std::string& mode, const std::string& path) {
        int input[2];
        int output[2];
        if (pipe2(input, O_CLOEXEC) != 0 || pipe2(output, O_CLOEXEC) != 0)
            throw std::runtime_error("pipe");
        pid_ = fork();
        if (pid_ == 0) {
            dup2(input[0], 0);
            dup2(output[1], 1);
            execl("/proc/self/exe", "store-child", "--child", mode.c_str(), path.c_str(), nullptr);
            _exit(127);
        }
        close(input[0]);
        close(output[1]);
        input_ = fdopen(input[1], "w");
        output_ = fdopen(output[0], "r");
    }
    ~Child() {
        kill_and_wait();
        fclose(input_);
        fclose(output_);
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    pid_t pid() const {
        const std::lock_guard lock(mutex_);
        return pid_;
    }
    std::string read_line() {
        char text[4096] = {};
        if (!fgets(text, sizeof text, output_)) return {};
        std::string line = text;
        if (!line.empty() && line.back() == '\n') line.pop_back();
        return line;
    }
    void send_line(const std::string& line) {
        fputs((line + "\n").c_str(), input_);
        fflush(input_);
    }
    /// Has no effect after wait(). Any thread may call it.
    void kill_now() {
        const std::lock_guard lock(mutex_);
        if (pid_ > 0) ::kill(pid_, SIGKILL);
    }
    int wait() {
        int status = -1;
        const pid_t process = pid();
        if (process <= 0) return status;
        // The process keeps its number until it is reaped below, under the lock.
        siginfo_t info = {};
        while (waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOWAIT) != 0 &&
               errno == EINTR) {
        }
        const std::lock_guard lock(mutex_);
        waitpid(process, &status, 0);
        pid_ = -1;
        return status;
    }
    void kill_and_wait() {
        kill_now();
        wait();
    }

private:
    mutable std::mutex mutex_;
    pid_t pid_ = -1;
    FILE* input_ = nullptr;
    FILE* output_ = nullptr;
};

inline constexpr int appends_per_process = 25;

inline void say(const std::string& line) { std::cout << line << std::endl; }

inline std::string read_line() {
    std::string line;
    std::getline(std::cin, line);
    return line;
}

/// Appends to the thread "t" of a store, which another process does at the same time.
template <class Store>
void append_in_turns(Store& store) {
    const std::string name = std::to_string(getpid());
    for (int i = 0; i < appends_per_process;) {
        const std::optional<CheckpointData> data = run(store.load("t"));
        AppendOptions options = AppendOptions().expected_position(data ? data->position : 0);
        try {
            run(store.append("t", one(user(name + " " + std::to_string(i))), std::move(options)));
            ++i;
        } catch (const StaleAppendError&) {
            // The other process was faster: load again.
        }
    }
}

template <class Store>
void claim_and_append_on_line(Store& store) {
    const ClaimOwner owner = current_process_owner();
    run(store.claim_run("t", "child-run", owner, ClaimKind::new_run));
    say(owner.owner_id);
    read_line();
    AppendOptions options = AppendOptions().claim("child-run", owner.owner_id);
    try {
        run(store.append("t", one(user("from the child", "child-run")), std::move(options)));
        say("stored");
    } catch (const StaleAppendError&) {
        say("stale");
    }
}

inline constexpr int open_questions = 20;

/// Answers all questions, and prints the number of answers that were accepted.
template <class Store>
void answer_on_line(Store& store) {
    run(store.open());
    say("ready");
    const std::string name = read_line();
    int accepted = 0;
    for (int i = 0; i < open_questions; ++i) {
        AnswerRecord record;
        record.run_id = "r";
        record.question_id = "q" + std::to_string(i);
        record.answer = true;
        record.answered_at = 20;
        record.user = name;
        try {
            run(store.answer_request("t", std::move(record)));
            ++accepted;
        } catch (const CheckpointerError& error) {
            if (error.code() != ErrorCode::stale_answer) throw;
        }
    }
    say(std::to_string(accepted));
}

inline constexpr int forks_per_process = 20;

/// Forks the thread "t", which other processes do at the same time, and prints the number of forks that it made.
template <class Store>
void fork_on_line(Store& store) {
    run(store.open());
    say("ready");
    const std::string name = read_line();
    int made = 0;
    for (int i = 0; i < forks_per_process; ++i) {
        try {
            run(store.fork("t", "f" + std::to_string(i), "r", JsonObject{{"by", name}}));
            ++made;
        } catch (const ThreadAlreadyExistsError&) {
        }
    }
    say(std::to_string(made));
}

// The tests that all stores pass. `place` is what the children open.

/// The messages "NAME NUMBER" are complete and in order for each name.
inline void expect_in_order(const MessageList& messages) {
    std::map<std::string, int> next;
    for (const Message& message : messages) {
        const std::string text = message.text();
        const std::string name = text.substr(0, text.find(' '));
        EXPECT_EQ(text, name + " " + std::to_string(next[name]++))
            << "in order, none twice, none lost";
    }
}

/// Two processes append to one thread.
template <class Store>
void expect_no_forks(Store& store, const std::string& place) {
    Child first("append_in_turns", place);
    Child second("append_in_turns", place);
    EXPECT_EQ(first.wait(), 0);
    EXPECT_EQ(second.wait(), 0);
    const MessageList messages = run(store.load("t"))->messages;
    EXPECT_EQ(messages.size(), 2U * appends_per_process);
    expect_in_order(messages);
}

template <class Store>
void expect_killed_claim_superseded(Store& store, const std::string& place) {
    Child child("claim_and_append_on_line", place);
    const std::string owner = child.read_line();
    const ClaimOwner ours = current_process_owner();
    Task<ClaimResult> claim = store.claim_run("t", "ours", ours, ClaimKind::new_run);
    const auto error = error_of<RunAlreadyClaimedError>(std::move(claim));
    EXPECT_NE(std::string(error.what()).find("pid " + std::to_string(child.pid())),
              std::string::npos)
        << error.what();
    expect_one_line(error);
    child.kill_and_wait();
    const ClaimResult result = run(store.claim_run("t", "ours", ours, ClaimKind::new_run));
    ASSERT_TRUE(result.superseded);
    EXPECT_EQ(result.superseded->owner_id, owner);
    EXPECT_EQ(result.superseded_run_id, "child-run");
}

/// `clock` is that of the store's leases.
template <class Store>
void expect_frozen_process_fenced(Store& store, testing::ManualClock& clock,
                                  const std::string& place) {
    Child child("claim_and_append_on_line", place);
    child.read_line();
    clock.set_wall(std::chrono::system_clock::now() + std::chrono::seconds(61));
    const ClaimOwner ours = current_process_owner();
    const ClaimResult result = run(store.claim_run("t", "ours", ours, ClaimKind::new_run));
    EXPECT_TRUE(result.superseded);
    AppendOptions under = AppendOptions().claim("ours", ours.owner_id);
    run(store.append("t", one(user("ours", "ours")), std::move(under)));
    child.send_line("go");
    EXPECT_EQ(child.read_line(), "stale");
    EXPECT_EQ(child.wait(), 0);
    EXPECT_EQ(run(store.load("t"))->messages.size(), 1U);
}

/// Two processes answer the same questions.
template <class Store>
void expect_one_answer_each(Store& store, const std::string& place) {
    for (int i = 0; i < open_questions; ++i) {
        HitlRequest request;
        request.question_id = "q" + std::to_string(i);
        request.created_at = 10;
        run(store.save_pending_request("t", "r", std::move(request)));
    }
    Child first("answer_on_line", place);
    Child second("answer_on_line", place);
    EXPECT_EQ(first.read_line(), "ready");
    EXPECT_EQ(second.read_line(), "ready");
    first.send_line("anna");
    second.send_line("ben");
    const int anna = std::stoi(first.read_line());
    const int ben = std::stoi(second.read_line());
    EXPECT_EQ(first.wait(), 0);
    EXPECT_EQ(second.wait(), 0);
    EXPECT_EQ(anna + ben, open_questions);
    std::map<std::string, int> recorded;
    const std::vector<AnswerRecord> records = run(store.load_answer_records("t", ""));
    for (const AnswerRecord& record : records) ++recorded[record.user];
    EXPECT_EQ(recorded["anna"], anna);
    EXPECT_EQ(recorded["ben"], ben);
    EXPECT_TRUE(run(store.load_pending_requests("t")).empty());
}

/// Processes, of which one is killed, make the same forks.
template <class Store>
void expect_whole_forks(Store& store, const std::string& place) {
    run(store.claim_run("t", "r", ClaimOwner(), ClaimKind::new_run));
    MessageList messages;
    for (int i = 0; i < 50; ++i)
        messages.push_back(user(std::to_string(i), "r", "m" + std::to_string(i)));
    run(store.append("t", messages, AppendOptions()));
    run(store.mark_run_complete("t", "r"));
    Child first("fork_on_line", place);
    Child second("fork_on_line", place);
    Child killed("fork_on_line", place);
    for (Child* child : {&first, &second, &killed}) EXPECT_EQ(child->read_line(), "ready");
    killed.send_line("killed");
    first.send_line("anna");
    second.send_line("ben");
    killed.kill_and_wait();
    std::map<std::string, int> made;
    made["anna"] = std::stoi(first.read_line());
    made["ben"] = std::stoi(second.read_line());
    EXPECT_EQ(first.wait(), 0);
    EXPECT_EQ(second.wait(), 0);
    std::map<std::string, int> found;
    for (int i = 0; i < forks_per_process; ++i) {
        const std::string fork = "f" + std::to_string(i);
        const std::optional<CheckpointData> data = run(store.load(fork));
        ASSERT_TRUE(data);
        EXPECT_EQ(data->messages.size(), messages.size());
        EXPECT_TRUE(run(store.is_run_complete(fork, "r")));
        ++found[std::string(data->extra.at("fork").at("by").as_string())];
    }
    EXPECT_EQ(found["anna"], made["anna"]);
    EXPECT_EQ(found["ben"], made["ben"]);
    EXPECT_EQ(found["anna"] + found["ben"] + found["killed"], forks_per_process);
}

}  // namespace cubepi
