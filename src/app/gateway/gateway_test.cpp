#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <bub/channel/debounce.hpp>
#include <bub/framework.hpp>
#include <bub/questions.hpp>
#include <bub/tape/memory_tape_store.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/scoped_test_directory.hpp>
#include <cubepi/workspace/local_workspace.hpp>
#include <cubepi/workspace/standard_tools.hpp>

#include "../config/config_file.hpp"
#include "gateway.hpp"
#include "gateway_command.hpp"
#include "gateway_findings.hpp"
#include "gateway_instance.hpp"
#include "source_tree.hpp"

// B25, B26: who may do what outside of a terminal.

namespace cubepi::app {

namespace {

using Kind = GatewayFinding::Kind;

bool has(const std::vector<GatewayFinding>& findings, Kind kind, const std::string& text) {
    return std::any_of(findings.begin(), findings.end(), [&](const GatewayFinding& one) {
        return one.kind == kind && one.text.find(text) != std::string::npos;
    });
}

std::size_t problems(const std::vector<GatewayFinding>& findings) {
    return static_cast<std::size_t>(
        std::count_if(findings.begin(), findings.end(),
                      [](const GatewayFinding& one) { return one.kind == Kind::problem; }));
}

GatewaySettings settings_of(const std::string& yaml) {
    return gateway_settings(yaml_values("gateway: {" + yaml + "}"));
}

GatewaySettings with_http() { return settings_of("http: {operators: [olga]}"); }

const Environment environment{{"CUBEPI_HTTP_TOKEN", "0123456789abcdef"},
                              {"TELEGRAM_BOT_TOKEN", "t"}};

TEST(GatewayFindings, LocalChannelWithToken_HasNoProblem) {
    const auto findings = gateway_findings(with_http(), environment);
    EXPECT_TRUE(has(findings, Kind::good, "channel http at 127.0.0.1:8642; operators: olga"));
    EXPECT_EQ(problems(findings), 0u);
    EXPECT_EQ(problems(gateway_findings(GatewaySettings(), environment)), 0u);
}

TEST(GatewayFindings, MissingSettings_AreNamed) {
    const auto findings = gateway_findings(settings_of("http: {}, telegram: {}"), Environment());
    EXPECT_TRUE(has(findings, Kind::problem, "CUBEPI_HTTP_TOKEN is not set"));
    EXPECT_TRUE(has(findings, Kind::problem, "TELEGRAM_BOT_TOKEN is not set"));
    EXPECT_TRUE(has(findings, Kind::problem, "no user may write to the bot"));
}

TEST(GatewayFindings, SecretsOfChannels_AreNotShown) {
    const auto findings = gateway_findings(
        settings_of("http: {}, telegram: {token: '42:very-secret', chats: [-1], operators: [7], "
                    "webhook: {url: 'https://e.org', listen: '0.0.0.0:1', secret_env: S}}"),
        {{"CUBEPI_HTTP_TOKEN", "very-secret"}, {"S", "very-secret"}});
    EXPECT_TRUE(
        has(findings, Kind::good, "channel telegram; users: none; chats: -1; operators: 7"));
    EXPECT_TRUE(has(findings, Kind::problem, "gateway.telegram.webhook is reachable"));
    EXPECT_FALSE(has(findings, Kind::problem, "is not set"));
    for (const GatewayFinding& one : findings)
        EXPECT_EQ((one.text + one.advice).find("very-secret"), std::string::npos) << one.text;
}

TEST(GatewayFindings, ShortToken_IsAProblem) {
    Environment other = environment;
    other["CUBEPI_HTTP_TOKEN"] = "x";
    EXPECT_TRUE(has(gateway_findings(with_http(), other), Kind::problem,
                    "the token in CUBEPI_HTTP_TOKEN has fewer than 16 characters"));
}

TEST(GatewayFindings, D199_ConsoleOfOtherMachines_IsAProblem) {
    GatewaySettings settings = with_http();
    settings.console = ListenAddress{"127.0.0.1", 8644};
    EXPECT_TRUE(
        has(gateway_findings(settings, environment), Kind::good, "web console at 127.0.0.1:8644"));
    settings.console->host = "0.0.0.0";
    EXPECT_TRUE(has(gateway_findings(settings, environment), Kind::problem,
                    "gateway.console is reachable from other machines"));
}

TEST(GatewayFindings, UnknownChannels_AreNamed) {
    const auto findings = gateway_findings(
        settings_of("http: {}, rules: [{channel: telegramm, user: 7, refuse: [shell]}, {refuse: "
                    "[shell]}], approvers: [{channel: htp, user: olga}, {channel: http, user: o}, "
                    "{channel: console, user: o}, {channel: zzzzzz, user: o}]"),
        environment);
    EXPECT_TRUE(has(findings, Kind::problem, "gateway.rules names the channel telegramm"));
    EXPECT_TRUE(has(findings, Kind::problem, "gateway.approvers names the channel htp"));
    EXPECT_TRUE(has(findings, Kind::problem, "gateway.approvers names the channel zzzzzz"));
    EXPECT_EQ(problems(findings), 3u);
    std::string advice;
    for (const GatewayFinding& one : findings) advice += one.advice;
    EXPECT_NE(advice.find("Write telegram there, unless a plugin provides telegramm."),
              std::string::npos)
        << advice;
    EXPECT_NE(advice.find("The channels are console, http, telegram"), std::string::npos) << advice;
}

TEST(GatewayFindings, D108_TokensOfOperators_AreChecked) {
    GatewaySettings settings = with_http();
    settings.admin.emplace();
    EXPECT_TRUE(has(gateway_findings(settings, environment), Kind::problem,
                    "gateway.admin has no token, so that it is not served"));
    settings.admin->viewer_token_env = "VIEWER";
    settings.admin->operator_token_env = "OPERATOR";
    settings.admin->listen.host = "0.0.0.0";
    Environment tokens = environment;
    tokens["OPERATOR"] = "short";
    const auto findings = gateway_findings(settings, tokens);
    EXPECT_TRUE(has(findings, Kind::problem, "gateway.admin: VIEWER is not set"));
    EXPECT_TRUE(has(findings, Kind::problem, "the token in OPERATOR has fewer than 16"));
    EXPECT_TRUE(has(findings, Kind::problem, "gateway.admin is reachable from other machines"));
    tokens["VIEWER"] = tokens["OPERATOR"] = "0123456789abcdef";
    settings.admin->listen.host = "127.0.0.1";
    EXPECT_TRUE(
        has(gateway_findings(settings, tokens), Kind::good, "gateway.admin at 127.0.0.1:8640"));
}

TEST(GatewayFindings, B26_OpenSettings_AreWarnedOf) {
    GatewaySettings settings = settings_of("http: {listen: '0.0.0.0:8642'}");
    settings.status.emplace();
    settings.status->host = "192.168.0.7";
    settings.shared_workspace = true;
    SenderRule all;
    all.channel = "http";
    all.allow = {"shell: cd * && make"};
    SenderRule one = all;
    one.user = "ann";
    settings.rules = {all, one};
    const auto findings = gateway_findings(settings, environment);
    EXPECT_TRUE(has(findings, Kind::problem, "channel http is reachable from other machines"));
    EXPECT_TRUE(has(findings, Kind::problem, "status port is reachable from other machines"));
    EXPECT_TRUE(has(findings, Kind::problem, "all sessions share the workspace"));
    EXPECT_TRUE(
        has(findings, Kind::problem, "every user of http: may use shell: cd * && make unasked"));
    EXPECT_TRUE(
        has(findings, Kind::plain, "user ann of http: may use shell: cd * && make unasked"));
    EXPECT_EQ(problems(findings), 4u);
}

TEST(GatewayFindings, B26_RulesThatAllowNothing_AreShown) {
    GatewaySettings settings = with_http();
    SenderRule rule;
    rule.user = "ann";
    rule.allow = {"shell: git status", "shell: cd * && git status *", "write: *"};
    settings.rules = {rule};
    const auto findings = gateway_findings(settings, environment);
    EXPECT_TRUE(has(findings, Kind::problem, "the rule shell: git status allows nothing"));
    EXPECT_EQ(problems(findings), 1u);
}

TEST(GatewayFindings, B26_RulesForMissingTools_AreNamed) {
    GatewaySettings settings = with_http();
    SenderRule rule;
    rule.user = "ann";
    rule.allow = {"Fetch: *", "edit: *"};
    rule.refuse = {"bash", "shel", "teleport"};
    settings.rules = {rule};

    const auto findings = gateway_findings(settings, environment);

    const auto advice_on = [&](const std::string& text) {
        const auto found = std::find_if(
            findings.begin(), findings.end(),
            [&](const GatewayFinding& one) { return one.text.find(text) != std::string::npos; });
        return found == findings.end() ? std::string("none") : found->advice;
    };
    EXPECT_EQ(advice_on("a rule allows Fetch, but"), "Write fetch in gateway.rules.");
    EXPECT_EQ(advice_on("a rule refuses bash, but"), "Write shell in gateway.rules.");
    EXPECT_EQ(advice_on("a rule refuses shel, but"), "Write shell in gateway.rules.");
    EXPECT_EQ(advice_on("a rule refuses teleport, but").substr(0, 20), "The tools are read, ");
    EXPECT_EQ(problems(findings), 5u) << "the gateway does not start, either";
}

TEST(GatewayFindings, B26_ToolsOfGateway_AreKnown) {
    const ScopedTestDirectory root;
    GatewaySettings settings = with_http();
    SenderRule rule;
    rule.user = "ann";
    for (const AgentTool& tool : standard_tools(std::make_shared<LocalWorkspace>(root.path())))
        rule.refuse.push_back(tool.name.str());
    const std::size_t standard = rule.refuse.size();
    std::ifstream page(cubepi::testing::source_path("docs/guides/bub/tools.md"));
    // The first table has the tools of models.
    for (std::string line; std::getline(page, line) && line.find("Not for models") != 0;)
        if (line.starts_with("| `")) rule.refuse.push_back(line.substr(3, line.find('`', 3) - 3));
    settings.rules = {rule};
    EXPECT_GT(standard, 8u);
    EXPECT_GT(rule.refuse.size(), standard + 12);
    EXPECT_EQ(problems(gateway_findings(settings, environment)), 0u);
}

TEST(GatewayFindings, InvalidRule_IsShown) {
    GatewaySettings settings = with_http();
    SenderRule rule;
    rule.user = "ann";
    rule.allow = {"everything"};
    settings.rules = {rule};
    EXPECT_TRUE(has(gateway_findings(settings, environment), Kind::problem, "gateway.rules"));
}

// Commands of the agent see none of these.
TEST(SecretVariables, D217_KeysOfClients_AreAmongThem) {
    GatewaySettings settings = settings_of(
        "http: {operators: [olga], token_env: OWN, openai: true, keys: ['ann=ANN_TOKEN', "
        "'bob=BOB_TOKEN']}");
    settings.admin.emplace();
    settings.admin->viewer_token_env = "VIEWER";
    settings.admin->operator_token_env = "OPERATOR";
    std::vector<std::string> names = secret_variables(settings);
    std::sort(names.begin(), names.end());
    EXPECT_EQ(names,
              std::vector<std::string>({"ANN_TOKEN", "BOB_TOKEN", "OPERATOR", "OWN", "VIEWER"}));
}

bub::Envelope from(const std::string& channel, const std::string& chat, const std::string& user) {
    bub::Envelope message = bub::Envelope("text").on(channel, chat);
    if (!user.empty()) message.context["sender_id"] = user;
    return message;
}

HitlRequest asked_by(const std::string& channel, const std::string& user, bool approval) {
    HitlRequest request;
    if (approval) {
        request.payload = ApproveRequest();
    } else {
        request.payload = AskRequest();
    }
    request.extra[bub::asker_key] = JsonObject{{"channel", channel}, {"user", user}};
    return request;
}

SenderRule rule(const std::string& chat, const std::string& user, const std::string& allow) {
    SenderRule made;
    made.channel = "telegram";
    made.chat = chat;
    made.user = user;
    if (!allow.empty()) made.allow.push_back(allow);
    return made;
}

TEST(SenderPolicy, B26_NoRule_AllowsNothing) {
    const bub::TurnQuestions questions = sender_policy(GatewaySettings());
    const bub::SenderRules rules = questions.rules(from("telegram", "1", "42"));
    EXPECT_TRUE(rules.allow.rules().empty());
    EXPECT_TRUE(rules.refuse.empty());
}

TEST(SenderPolicy, B26_Rules_ApplyByChannelChatAndUser) {
    GatewaySettings settings;
    settings.rules = {rule("", "42", "shell: git status"), rule("1", "", "write: *")};
    settings.rules.back().refuse = {"fetch"};
    const bub::TurnQuestions questions = sender_policy(settings);
    EXPECT_EQ(questions.rules(from("telegram", "1", "42")).allow.rules().size(), 2u);
    EXPECT_EQ(questions.rules(from("telegram", "2", "42")).allow.rules().size(), 1u);
    EXPECT_EQ(questions.rules(from("telegram", "1", "43")).refuse,
              std::vector<std::string>{"fetch"});
    EXPECT_TRUE(questions.rules(from("http", "1", "42")).allow.rules().empty());
    EXPECT_TRUE(questions.rules(from("telegram", "2", "")).allow.rules().empty());
}

TEST(SenderPolicy, D156_DenyRulesOfTheUser_BindAllSenders) {
    GatewaySettings settings;
    settings.rules = {rule("", "42", "write: *")};
    ConfigFile config;
    config.deny = {"write: *"};
    const bub::TurnQuestions questions = sender_policy(settings, config);
    for (const char* user : {"42", "43", ""}) {
        const bub::SenderRules rules = questions.rules(from("telegram", "1", user));
        EXPECT_FALSE(rules.allow.decide("write", ToolRisk::writes, JsonObject{{"path", "a"}})
                         .refusal.empty());
    }
}

TEST(SenderPolicy, B26_TextOfSeveralSenders_HasRightsOfNone) {
    GatewaySettings settings;
    settings.rules = {rule("", "42", "write: *"), rule("1", "", "edit: *")};
    std::vector<bub::Envelope> both;
    both.push_back(from("telegram", "1", "43"));
    both.push_back(from("telegram", "1", "42"));
    const bub::TurnQuestions questions = sender_policy(settings);
    const bub::SenderRules rules = questions.rules(bub::merge_messages(std::move(both)));
    EXPECT_EQ(rules.allow.rules().size(), 1u) << "only the rule for the chat";
}

TEST(SenderPolicy, InvalidRule_IsNamed) {
    GatewaySettings settings;
    settings.rules = {rule("", "", "")};
    for (const char* text : {"", "write", "write: new.txt", "shell: *"}) {
        settings.rules.front().allow = {text};
        try {
            (void)sender_policy(settings);
            ADD_FAILURE() << text << " was accepted";
        } catch (const Error& error) {
            EXPECT_NE(std::string(error.what()).find("gateway.rules"), std::string::npos);
        }
    }
}

TEST(SenderPolicy, B26_RefusedToolOfOtherName_IsNamed) {
    GatewaySettings settings;
    settings.rules = {rule("", "", "")};
    settings.rules.front().refuse = {"mcp__Git__Log", "Custom", "shell"};
    EXPECT_NO_THROW((void)sender_policy(settings));
    for (const char* const name : {"bash", "fs.write", "Shell"}) {
        settings.rules.front().refuse = {name};
        try {
            (void)sender_policy(settings);
            ADD_FAILURE() << name << " was accepted";
        } catch (const Error& error) {
            EXPECT_NE(std::string(error.what()).find("the name of this tool is '"),
                      std::string::npos)
                << error.what();
        }
    }
}

TEST(SenderPolicy, B25_Approvers_AnswerAllAndAskedUsersTheirQuestions) {
    GatewaySettings settings;
    Approver boss;
    boss.channel = "telegram";
    boss.user = "7";
    settings.approvers = {boss};
    const auto may = sender_policy(settings).may_answer;
    const HitlRequest approval = asked_by("telegram", "42", true);
    const HitlRequest ask = asked_by("telegram", "42", false);
    EXPECT_TRUE(may(from("telegram", "1", "7"), approval));
    EXPECT_FALSE(may(from("http", "1", "7"), approval)) << "another channel's user 7";
    EXPECT_FALSE(may(from("telegram", "1", "42"), approval));
    EXPECT_TRUE(may(from("telegram", "1", "42"), ask));
    EXPECT_FALSE(may(from("http", "1", "42"), ask));
    EXPECT_FALSE(may(from("telegram", "1", "43"), ask));
    EXPECT_FALSE(may(from("telegram", "1", ""), ask));
}

/// "http:", 60 times 'x' and one of these: the SHA-256 of both begins with 4b4ee749.
constexpr std::pair<const char*, const char*> colliding_ends = {"43044", "61983"};

TEST(SessionWorkspaces, WorkspaceNames_CannotLeaveTheRoot) {
    const std::filesystem::path root = "/srv";
    for (const char* id : {"telegram:-100:7", "../../etc", "a/b", "", ".", "\u00fc"}) {
        const std::filesystem::path made = session_workspace(root, id).directory;
        EXPECT_EQ(made.parent_path(), root) << id;
        EXPECT_NE(made.filename(), "..") << id;
    }
    EXPECT_NE(session_workspace(root, "a:b").directory, session_workspace(root, "a-b").directory);
    const std::filesystem::path longest =
        session_workspace(root, std::string(5'000, 'x')).directory;
    EXPECT_LT(longest.filename().string().size(), 100u);
}

TEST(SessionWorkspaces, D100_EqualBeginOfDigest_DirectoriesDiffer) {
    const std::string begin = "http:" + std::string(60, 'x');
    const SessionWorkspace one = session_workspace("/srv", begin + colliding_ends.first);
    const SessionWorkspace two = session_workspace("/srv", begin + colliding_ends.second);
    ASSERT_EQ(one.earlier, two.earlier);
    EXPECT_NE(one.directory, two.directory);
    EXPECT_FALSE(one.is_unique);
    EXPECT_TRUE(session_workspace("/srv", "telegram:-100123").is_unique);
}

/// The sessions of a gateway, in a directory of their own, with tapes in memory.
class GatewaySessions : public ::testing::Test {
protected:
    GatewaySessions() : framework_(framework_options(directory_)) {
        bub::Plugin plugin;
        plugin.name = "tapes";
        plugin.provide_tape_store = [this](bub::ProvideCall&) { return tapes_; };
        framework_.add(std::move(plugin));
        framework_.add(gateway_sessions(framework_, GatewaySettings()));
    }
    static bub::FrameworkOptions framework_options(const ScopedTestDirectory& directory) {
        bub::FrameworkOptions options;
        options.workspace = directory.path();
        return options;
    }
    std::string workspace_of(const std::string& chat) {
        const bub::TurnResult result =
            run(framework_.process_inbound(bub::Envelope("hi").on("http", chat)));
        return result.state.text(bub::TurnState::workspace_key);
    }
    SessionWorkspace names(const std::string& chat) const {
        return session_workspace(framework_.workspace(), "http:" + chat);
    }
    /// Makes what an earlier version has left of a session.
    void add_earlier(const std::string& chat, bool with_tape) {
        const std::filesystem::path directory = names(chat).earlier;
        std::filesystem::create_directory(directory);
        if (!with_tape) return;
        std::vector<bub::TapeEntry> entries;
        entries.push_back(bub::message_entry("user", "earlier"));
        run(tapes_->append(bub::tape_name(directory, "http:" + chat), std::move(entries),
                           bub::TapeAppend()));
    }

    const ScopedTestDirectory directory_;
    const std::shared_ptr<bub::TapeStore> tapes_ = std::make_shared<bub::MemoryTapeStore>();
    bub::Framework framework_;
};

TEST_F(GatewaySessions, B26_EachSession_HasItsOwnWorkspace) {
    const std::string one = workspace_of("1");
    EXPECT_EQ(one, names("1").directory);
    EXPECT_EQ(workspace_of("1"), one);
    EXPECT_NE(workspace_of("2"), one);
    struct stat info = {};
    ASSERT_EQ(::stat(one.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777U, 0700U);
}

TEST_F(GatewaySessions, D100_EarlierDirectory_BelongsToOneSession) {
    const std::string first = std::string(60, 'x') + colliding_ends.first;
    const std::string second = std::string(60, 'x') + colliding_ends.second;
    add_earlier(first, true);
    EXPECT_EQ(workspace_of(second), names(second).directory) << "it has no tape";
    EXPECT_EQ(workspace_of(first), names(first).earlier);
    add_earlier(second, true);
    EXPECT_EQ(workspace_of(second), names(second).directory) << "it has a directory";
    run(tapes_->reset(bub::tape_name(names(first).earlier, "http:" + first)));
    EXPECT_EQ(workspace_of(first), names(first).earlier) << "it is recorded";
    std::filesystem::remove(names(second).directory);
    EXPECT_EQ(workspace_of(second), names(second).directory) << "it belongs to the first";
}

TEST_F(GatewaySessions, D100_EarlierDirectoryOfUniqueName_NeedsNoTape) {
    add_earlier("1", false);
    EXPECT_EQ(workspace_of("1"), names("1").earlier);
}

using Texts = std::vector<std::string>;

class ExpiredQuestionsTest : public ::testing::Test {
public:
    /// Passes questions with these keys, which are also the texts of their messages.
    void notify(const Texts& keys) {
        std::vector<ExpiredQuestions::Due> due;
        for (const std::string& key : keys) {
            ExpiredQuestions::Due one;
            one.key = key;
            one.message = bub::Envelope(key);
            due.push_back(std::move(one));
        }
        const auto receive = [this](bub::Envelope message) { return take(std::move(message)); };
        const auto warn = [this](const std::string& text) { warnings.push_back(text); };
        run(questions.notify(std::move(due), receive, warn));
    }

    Task<> take(bub::Envelope message) {
        const std::string text = message.content_text();
        if (failures.contains(text)) std::rethrow_exception(failures[text]);
        received.push_back(text);
        co_return;
    }

    ExpiredQuestions questions;
    std::map<std::string, std::exception_ptr> failures;
    Texts received;
    Texts warnings;
};

TEST_F(ExpiredQuestionsTest, D65_ExpiredQuestions_NotifyEachSessionOnce) {
    notify({"a", "b"});
    notify({"a", "b", "c"});
    EXPECT_EQ(received, (Texts{"a", "b", "c"}));
}

TEST_F(ExpiredQuestionsTest, D65_Failure_IsReportedOnceAndLeavesOthersAlone) {
    failures["a"] = std::make_exception_ptr(std::runtime_error("broken"));
    notify({"a", "b"});
    notify({"a", "b"});
    EXPECT_EQ(received, Texts{"b"});
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_NE(warnings.front().find("broken"), std::string::npos) << warnings.front();
}

TEST_F(ExpiredQuestionsTest, D65_QuestionOfStoppedChannel_ExpiresOnceItRuns) {
    failures["a"] = std::make_exception_ptr(Error(ErrorCode::not_found, "not running"));
    notify({"a", "b"});
    EXPECT_EQ(received, Texts{"b"});
    EXPECT_EQ(warnings, Texts());
    failures.clear();
    notify({"a", "b"});
    EXPECT_EQ(received, (Texts{"b", "a"}));
}

TEST_F(ExpiredQuestionsTest, D65_FullDisk_QuestionExpiresLater) {
    failures["a"] = std::make_exception_ptr(Error(ErrorCode::storage_full, "the disk is full"));
    notify({"a"});
    failures.clear();
    notify({"a"});
    EXPECT_EQ(received, Texts{"a"});
}

TEST_F(ExpiredQuestionsTest, QuestionAskedAgain_ExpiresAgain) {
    notify({"a"});
    notify({});
    notify({"a"});
    EXPECT_EQ(received, (Texts{"a", "a"}));
}

UnitOptions options() {
    UnitOptions options;
    options.program = "/bin/true";
    options.environment = "/srv/cubepi/.config/cubepi/gateway.env";
    return options;
}

/// Returns the exit status of `systemd-analyze verify`, which also fails for warnings.
int verify(const std::string& unit, const ScopedTestDirectory& directory) {
    const std::filesystem::path path = directory.path() / "cubepi-gateway.service";
    std::ofstream(path) << unit;
    const std::string output = (directory.path() / "output").string();
    const std::string command = "XDG_RUNTIME_DIR=" + directory.path().string() +
                                " systemd-analyze verify --user " + path.string() + " >" + output +
                                " 2>&1";
    const int status = std::system(command.c_str());  // NOLINT(concurrency-mt-unsafe)
    std::ifstream file(output);
    const std::string text((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());
    EXPECT_EQ(text, "");
    return status;
}

TEST(GatewayUnit, GatewayUnit_IsAcceptedBySystemd) {
    const ScopedTestDirectory directory;
    EXPECT_EQ(verify(gateway_unit(options()), directory), 0);
    UnitOptions other = options();
    other.channels = {"http", "my channel"};
    other.environment = "/home/50% off/$x/gateway.env";
    EXPECT_EQ(verify(gateway_unit(other), directory), 0);
}

TEST(GatewayUnit, GatewayUnit_LeavesTimeToDrain) {
    UnitOptions slow = options();
    slow.drain_timeout = std::chrono::minutes(5);
    EXPECT_NE(gateway_unit(slow).find("TimeoutStopSec=330\n"), std::string::npos);
}

TEST(GatewayUnit, ProgramAndChannels_AreQuoted) {
    UnitOptions other = options();
    other.program = "/opt/a \"b\" $c %d/cubepi";
    other.channels = {"http"};
    EXPECT_NE(gateway_unit(other).find(
                  R"(ExecStart="/opt/a \"b\" $$c %%d/cubepi" gateway --enable-channel "http")"),
              std::string::npos)
        << gateway_unit(other);
}

}  // namespace

}  // namespace cubepi::app
