#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bub/tape/session_tape_store.hpp>
#include <bub/tape/tape_store_conformance.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>

namespace bub::detail {

inline constexpr const char* probed_tape = "w__s";

/// The store of one check, and the failures found.
class Probe {
public:
    Probe(const TapeStoreUnderTest& subject, std::string check)
        : subject_(subject), check_(std::move(check)), store_(subject.make()) {}

    TapeStore& store() { return *store_; }
    TapeMediaStore* media() { return dynamic_cast<TapeMediaStore*>(store_.get()); }
    bool can_reopen() const { return static_cast<bool>(subject_.reopen); }
    void reopen() { store_ = subject_.reopen(std::move(store_)); }
    bool can_share() const { return static_cast<bool>(subject_.share); }
    /// The same store as opened by another process.
    std::shared_ptr<TapeStore> other() { return subject_.share(*store_); }
    std::shared_ptr<TapeStore> shared() { return store_; }
    SessionTapeStore* sessions() { return dynamic_cast<SessionTapeStore*>(store_.get()); }
    bool has_journals() const { return dynamic_cast<TurnJournalStore*>(store_.get()) != nullptr; }

    void fail(std::string text) { failures_.push_back({check_, std::move(text)}); }
    void expect(bool holds, std::string_view what) {
        if (!holds) fail("expected: " + std::string(what));
    }
    template <class F>
    void expect_error(cubepi::ErrorCode code, std::string_view what, F call) {
        const std::string wanted =
            std::string(what) + " is rejected with " + std::string(cubepi::to_string(code));
        try {
            call();
            fail("expected: " + wanted + "; it succeeded");
        } catch (const cubepi::Error& error) {
            if (error.code() != code)
                fail("expected: " + wanted + "; it failed with " +
                     std::string(cubepi::to_string(error.code())) + " (" + error.what() + ")");
        }
    }

    TapePosition append(std::vector<TapeEntry> entries, TapeAppend options = {}) {
        return cubepi::run(store().append(probed_tape, std::move(entries), std::move(options)));
    }
    TapePosition append(TapeEntry entry, TapeAppend options = {}) {
        std::vector<TapeEntry> one;
        one.push_back(std::move(entry));
        return append(std::move(one), std::move(options));
    }
    /// Returns the texts of messages and the names of events and anchors.
    std::string contents(TapeQuery query = {}) { return contents_of(store(), std::move(query)); }
    static std::string contents_of(TapeStore& of, TapeQuery query = {}) {
        std::string texts;
        for (const TapeEntry& entry : cubepi::run(of.fetch(probed_tape, std::move(query)))) {
            const Json* content = entry.payload.if_contains("content");
            texts += content ? std::string(content->as_string()) : std::string(entry_name(entry));
            texts += ' ';
        }
        return texts;
    }
    void set_state(std::string key, std::string value) {
        std::function<Json(JsonObject&)> edit = [key, value](JsonObject& state) {
            state[key] = value;
            return Json();
        };
        (void)cubepi::run(store().edit_state(probed_tape, std::move(edit)));
    }
    std::vector<TapeStoreFailure> take() { return std::move(failures_); }

private:
    const TapeStoreUnderTest& subject_;
    std::string check_;
    std::shared_ptr<TapeStore> store_;
    std::vector<TapeStoreFailure> failures_;
};

struct Check {
    const char* name;
    void (*run)(Probe& probe);
};

/// The checks of TurnJournalStore and SessionTapeStore.
std::vector<Check> session_checks();

}  // namespace bub::detail
