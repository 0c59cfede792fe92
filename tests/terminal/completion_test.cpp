// Completion in the real shells. A session's name is data: no shell may evaluate it, and the name that is completed must be
// the name that is meant.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include <cubepi/core/json.hpp>

#include "source_tree.hpp"
#include "terminal.hpp"

namespace cubepi::terminal_tests {
namespace {

struct Shell {
    std::string name;
    std::vector<std::string> arguments;
    std::string load;  ///< the line that loads the completion script
    bool is_fish = false;

    /// Fish takes what follows a tab for a description, and leaves a ~ at the start unquoted: such names are not offered.
    bool completes(const std::string& name) const {
        return !is_fish || (name.find('\t') == std::string::npos && !name.starts_with('~'));
    }
};

std::vector<Shell> shells() {
    return {{"bash", {"--noprofile", "--norc", "-i"}, "source <(cubepi completion bash)"},
            {"zsh",
             {"-f", "-i"},
             "autoload -U compinit; compinit -u -D; source <(cubepi completion zsh)"},
            {"fish", {"--no-config", "--private", "-i"}, "cubepi completion fish | source", true}};
}

void PrintTo(const Shell& shell, std::ostream* out) { *out << shell.name; }

/// Names that are commands, expansions or quotes to a shell, if it looks at them.
std::vector<std::string> hostile_names() {
    return {"$(touch canary)",
            "`touch canary`",
            "a; touch canary",
            "a && touch canary",
            "a\ntouch canary\n",
            "two words",
            "tab\there",
            " starts with a blank",
            "it's",
            "\"both\" 'quotes'",
            "$HOME and ${PATH} \\ back",
            "a*b?[c]",
            "~",
            "#not a comment",
            "a!b!!",
            "a:b=c@d",
            "<in >out |pipe",
            "Größe 計画 ✓",
            "esc\x1b[31m"};
}

class Completion : public ::testing::TestWithParam<Shell> {
protected:
    Completion() {
        const std::filesystem::path program = cubepi::testing::built_program("cubepi");
        home_.set("PATH", program.parent_path().string() + ":/usr/bin:/bin");
    }

    void make_session(const std::string& name) {
        const Piped made = run_piped(home_, {"run", "--offline", "--session", name, "hi"});
        ASSERT_EQ(made.status, 0) << made.err;
    }
    Json sessions() const {
        return boost::json::parse(run_piped(home_, {"sessions", "list", "--json"}).out);
    }
    bool evaluated() const { return std::filesystem::exists(home_.work() / "canary"); }

    /// Types `keys` into an interactive shell with the completion loaded, and leaves it. Returns what was shown.
    std::string type(const std::string& keys, const std::string& awaited) {
        const Shell& shell = GetParam();
        const OtherProgram program{"/usr/bin/" + shell.name};
        EXPECT_TRUE(std::filesystem::exists(program.path))
            << program.path << " is missing; install it with tools/setup";
        Terminal terminal(home_, program, shell.arguments);
        terminal.type(shell.load + "; echo loa''ded\r");
        EXPECT_TRUE(terminal.answer("loaded", keys)) << terminal.shown();
        EXPECT_TRUE(terminal.expect(awaited)) << terminal.shown();
        (void)terminal.hang_up();
        return terminal.shown();
    }

    Home home_;
};

TEST_P(Completion, EveryName_IsCompletedWithoutEvaluation) {
    for (const std::string& name : hostile_names()) {
        if (!GetParam().completes(name)) continue;
        make_session(name);
        const std::string shown = type("cubepi sessions delete --yes \t\r", "Deleted: ");
        EXPECT_EQ(sessions(), Json(JsonArray())) << "'" << name << "' is still there\n" << shown;
        EXPECT_FALSE(evaluated()) << name;
        const Json rest = sessions();
        for (const Json& left : rest.get_array())
            run_piped(home_, {"sessions", "delete", std::string(left.at("name").get_string())});
    }
}

TEST_P(Completion, HostileNames_AreListedWithoutEvaluation) {
    for (const std::string& name : hostile_names()) make_session(name);
    const std::size_t count = sessions().get_array().size();
    EXPECT_EQ(count, hostile_names().size());
    type("cubepi sessions delete --yes \t\t", "quotes");
    EXPECT_FALSE(evaluated());
    EXPECT_EQ(sessions().get_array().size(), count);
}

TEST_P(Completion, CommandsAndOptions_AreCompleted) {
    make_session("two words");
    type("cubepi sess\tli\t\r", "two words'  ");
    type("cubepi tape show --sess\ttwo\t\r", "user: hi");
}

INSTANTIATE_TEST_SUITE_P(Shells, Completion, ::testing::ValuesIn(shells()),
                         [](const auto& one) { return one.param.name; });

class BashCompletion : public Completion {};

// The text that is already typed decides how the rest is quoted.
TEST_P(BashCompletion, QuotesWordBreaksAndEqualsSigns_AreContinued) {
    for (const std::string typed : {"\"two w\t", "'two w\t", "two\\ w\t", "two\" w\t"}) {
        make_session("two words");
        type("cubepi sessions delete --yes " + typed + "\r", "Deleted: ");
        EXPECT_EQ(sessions(), Json(JsonArray())) << typed;
    }
    make_session("a:b:c $x");
    type("cubepi sessions delete --yes a:b\t\r", "Deleted: ");
    EXPECT_EQ(sessions(), Json(JsonArray()));
    make_session("plan $x");
    type("cubepi tape show --session=pl\t\r", "user: hi");
}

INSTANTIATE_TEST_SUITE_P(Shells, BashCompletion, ::testing::Values(shells().front()),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace cubepi::terminal_tests
