// Commands and plugins of programs that embed this one.

#include "program.hpp"

#include <gtest/gtest.h>

#include <iostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <bub/framework.hpp>

#include "commands.hpp"
#include "exit_code.hpp"

namespace cubepi::app {
namespace {

struct Ran {
    int status = -1;
    std::string out = {};
    std::string err = {};
};

Ran run_with(std::vector<std::string> words, const AddPlugins& plugins) {
    words.insert(words.begin(), "cubepi");
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    Ran ran;
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    ran.status = run_program(static_cast<int>(arguments.size()), arguments.data(), plugins);
    ran.out = ::testing::internal::GetCapturedStdout();
    ran.err = ::testing::internal::GetCapturedStderr();
    return ran;
}

bub::CliCommand command(std::string name, int status) {
    bub::CliCommand made;
    made.name = std::move(name);
    made.description = "Says what it got";
    made.run = [status](std::vector<std::string> words) -> Task<int> {
        for (const std::string& word : words) std::cout << '[' << word << ']';
        co_return status;
    };
    return made;
}

bub::Plugin commanding(std::string plugin, std::vector<bub::CliCommand> commands) {
    bub::Plugin made;
    made.name = std::move(plugin);
    made.register_cli_commands = [commands = std::move(commands)](bub::ProvideCall&) {
        return commands;
    };
    return made;
}

TEST(PluginCommands, ARunReceivesItsArgumentsAndReturnsItsStatus) {
    const AddPlugins plugins = [](bub::Framework& framework) {
        framework.add(commanding("greeter", {command("greet", 7)}));
    };
    const Ran ran = run_with({"greet", "you", "--loud"}, plugins);
    EXPECT_EQ(ran.status, 7);
    EXPECT_EQ(ran.out, "[you][--loud]");
    EXPECT_EQ(ran.err, "");
    EXPECT_NE(run_with({"--help"}, plugins).out.find("Says what it got"), std::string::npos);
}

TEST(PluginCommands, ABuiltInCommandHasPrecedenceAndAConflictIsReported) {
    const AddPlugins plugins = [](bub::Framework& framework) {
        framework.add(commanding("bold", {command("completion", 9), command("greet", 1)}));
        framework.add(commanding("newer", {command("greet", 2), command("", 3)}));
    };
    const Ran own = run_with({"completion", "bash"}, plugins);
    EXPECT_EQ(own.status, exit_ok);
    EXPECT_NE(own.out.find("complete -F"), std::string::npos);
    EXPECT_NE(own.err.find("command 'completion' of plugin bold: a built-in command has"),
              std::string::npos)
        << own.err;
    EXPECT_NE(own.err.find("command 'greet' of plugin bold: the command of plugin newer has"),
              std::string::npos)
        << own.err;
    EXPECT_EQ(run_with({"greet"}, plugins).status, 2);
}

TEST(PluginCommands, HooksShowsThemAndWhatIsNotUsed) {
    const AddPlugins plugins = [](bub::Framework& framework) {
        framework.add(commanding("greeter", {command("greet", 0), command("run", 0)}));
    };
    const Ran ran = run_with({"hooks"}, plugins);
    EXPECT_EQ(ran.status, exit_ok);
    EXPECT_NE(ran.out.find("cubepi greet: greeter, Says what it got"), std::string::npos)
        << ran.out;
    EXPECT_NE(ran.out.find("not used: command 'run' of plugin greeter"), std::string::npos)
        << ran.out;
    EXPECT_NE(ran.out.find("register_cli_commands: greeter"), std::string::npos) << ran.out;
}

TEST(PluginCommands, B16_APluginThatThrowsLeavesTheProgramsOwnCommands) {
    const AddPlugins thrown = [](bub::Framework&) { throw std::runtime_error("no licence"); };
    const Ran hooks = run_with({"hooks"}, thrown);
    EXPECT_EQ(hooks.status, exit_failed);
    EXPECT_NE(hooks.out.find("broken: no licence"), std::string::npos) << hooks.out;
    const AddPlugins throwing = [](bub::Framework& framework) {
        bub::Plugin plugin;
        plugin.name = "torn";
        plugin.register_cli_commands = [](bub::ProvideCall&) -> std::vector<bub::CliCommand> {
            throw std::runtime_error("torn apart");
        };
        framework.add(std::move(plugin));
    };
    const Ran own = run_with({"completion", "bash"}, throwing);
    EXPECT_EQ(own.status, exit_ok);
    EXPECT_NE(own.err.find("torn apart"), std::string::npos) << own.err;
}

TEST(PluginCommands, WhatOneThrowsIsAFailureOfTheProgram) {
    const AddPlugins plugins = [](bub::Framework& framework) {
        bub::CliCommand fails;
        fails.name = "fails";
        fails.run = [](std::vector<std::string>) -> Task<int> {
            throw Error(ErrorCode::invalid_argument, "fails: it wants a name");
            co_return 0;
        };
        framework.add(commanding("greeter", {fails}));
    };
    const Ran ran = run_with({"fails"}, plugins);
    EXPECT_EQ(ran.status, exit_usage);
    EXPECT_EQ(ran.err, "cubepi: fails: it wants a name\n");
}

}  // namespace
}  // namespace cubepi::app
