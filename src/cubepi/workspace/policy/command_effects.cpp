#include <cubepi/workspace/policy/command_effects.hpp>

#include <algorithm>
#include <array>
#include <vector>

namespace cubepi::detail {

namespace {

using Words = std::vector<std::string>;

struct Effect {
    std::string_view program;
    std::string_view words;  ///< alternatives, anywhere among its arguments; empty: always
    std::string_view text;
};

constexpr std::array effects = {
    Effect{"rm", "", "deletes files"},
    Effect{"rmdir", "", "deletes directories"},
    Effect{"unlink", "", "deletes files"},
    Effect{"shred", "", "overwrites files"},
    Effect{"srm", "", "deletes files"},
    Effect{"truncate", "", "cuts off files"},
    Effect{"dd", "", "overwrites files or disks"},
    Effect{"wipefs", "", "overwrites disks"},
    Effect{"fdisk", "", "changes partitions"},
    Effect{"sfdisk", "", "changes partitions"},
    Effect{"sgdisk", "", "changes partitions"},
    Effect{"parted", "", "changes partitions"},
    Effect{"mkswap", "", "overwrites disks"},
    Effect{"blkdiscard", "", "erases disks"},
    Effect{"cryptsetup", "", "changes encrypted disks"},
    Effect{"lvremove", "", "removes volumes"},
    Effect{"vgremove", "", "removes volumes"},
    Effect{"reboot", "", "restarts the machine"},
    Effect{"shutdown", "", "stops the machine"},
    Effect{"halt", "", "stops the machine"},
    Effect{"poweroff", "", "stops the machine"},
    Effect{"kill", "", "ends processes"},
    Effect{"pkill", "", "ends processes"},
    Effect{"killall", "", "ends processes"},
    Effect{"userdel", "", "removes users"},
    Effect{"groupdel", "", "removes groups"},
    Effect{"deluser", "", "removes users"},
    Effect{"passwd", "", "changes passwords"},
    Effect{"sendmail", "", "sends mail"},
    Effect{"mail", "", "sends mail"},
    Effect{"mutt", "", "sends mail"},
    Effect{"twine", "", "publishes packages"},
    Effect{"dropdb", "", "deletes databases"},
    Effect{"crontab", "-r", "removes scheduled jobs"},
    Effect{"find", "-delete", "deletes files"},
    Effect{"rsync",
           "--delete --delete-before --delete-after --delete-during --delete-excluded "
           "--remove-source-files",
           "deletes files"},
    Effect{"sed", "-i --in-place", "changes files in place"},
    Effect{"chmod", "-R --recursive", "changes permissions of whole trees"},
    Effect{"chown", "-R --recursive", "changes owners of whole trees"},
    Effect{"git", "push", "publishes commits"},
    Effect{"git", "clean", "deletes files that are not tracked"},
    Effect{"git", "restore checkout switch", "can discard changes"},
    Effect{"git", "rm", "deletes files"},
    Effect{"git", "reset --hard --merge --keep", "can discard changes and commits"},
    Effect{"git", "filter-branch filter-repo rebase", "rewrites history"},
    Effect{"git", "reflog update-ref gc prune", "can discard commits"},
    Effect{"git", "drop clear -D --delete --force", "can discard commits or changes"},
    Effect{"docker", "rm rmi prune kill down", "removes containers, images or volumes"},
    Effect{"docker", "push", "publishes images"},
    Effect{"podman", "rm rmi prune kill down", "removes containers, images or volumes"},
    Effect{"podman", "push", "publishes images"},
    Effect{"docker-compose", "rm down kill", "removes containers or volumes"},
    Effect{"kubectl", "delete drain scale replace", "removes or replaces what runs in a cluster"},
    Effect{"helm", "uninstall delete rollback", "removes what runs in a cluster"},
    Effect{"terraform", "destroy apply", "changes infrastructure"},
    Effect{"tofu", "destroy apply", "changes infrastructure"},
    Effect{"pulumi", "destroy up", "changes infrastructure"},
    Effect{"aws", "rm rb terminate-instances delete-bucket delete-object delete-stack",
           "deletes in the cloud"},
    Effect{"gcloud", "delete", "deletes in the cloud"},
    Effect{"az", "delete", "deletes in the cloud"},
    Effect{"npm", "publish unpublish deprecate", "publishes packages"},
    Effect{"yarn", "publish", "publishes packages"},
    Effect{"pnpm", "publish", "publishes packages"},
    Effect{"cargo", "publish yank", "publishes packages"},
    Effect{"gem", "push yank", "publishes packages"},
    Effect{"poetry", "publish", "publishes packages"},
    Effect{"uv", "publish", "publishes packages"},
    Effect{"gh", "merge delete close create edit", "changes what others see on GitHub"},
    Effect{"apt", "remove purge autoremove", "removes packages"},
    Effect{"apt-get", "remove purge autoremove", "removes packages"},
    Effect{"dnf", "remove erase", "removes packages"},
    Effect{"pacman", "-R -Rs -Rns", "removes packages"},
    Effect{"brew", "uninstall remove", "removes packages"},
    Effect{"systemctl", "stop disable mask kill poweroff reboot halt", "stops services"},
    Effect{"redis-cli", "flushall flushdb FLUSHALL FLUSHDB", "deletes databases"},
};

/// Programs that run the command in their arguments.
constexpr std::array<std::string_view, 27> runners = {
    "sudo",   "doas", "env",     "xargs",   "nohup", "time",     "timeout", "nice",   "ionice",
    "setsid", "exec", "command", "builtin", "eval",  "watch",    "find",    "strace", "bash",
    "sh",     "zsh",  "dash",    "ssh",     "su",    "parallel", "flock",   "stdbuf", "busybox"};

constexpr std::array<std::string_view, 7> keywords = {"if",    "then",  "else", "elif",
                                                      "while", "until", "do"};

template <std::size_t n>
bool is_one_of(std::string_view word, const std::array<std::string_view, n>& list) {
    return std::find(list.begin(), list.end(), word) != list.end();
}

std::string_view base_name(std::string_view word) { return word.substr(word.rfind('/') + 1); }

bool is_assignment(std::string_view word) {
    const auto equals = word.find('=');
    return equals != std::string_view::npos && equals > 0 && word.find('/') > equals;
}

/// Returns the first alternative that occurs among the words; empty if there is none.
std::string_view find_any(const Words& words, std::string_view alternatives) {
    while (!alternatives.empty()) {
        const auto blank = alternatives.find(' ');
        const std::string_view word = alternatives.substr(0, blank);
        if (std::find(words.begin(), words.end(), word) != words.end()) return word;
        alternatives =
            blank == std::string_view::npos ? std::string_view() : alternatives.substr(blank + 1);
    }
    return {};
}

std::string effect_of(std::string_view program, const Words& words) {
    if (program.starts_with("mkfs")) return std::string(program) + " overwrites disks";
    for (const Effect& effect : effects) {
        if (effect.program != program) continue;
        if (effect.words.empty()) return std::string(program) + " " + std::string(effect.text);
        const std::string_view word = find_any(words, effect.words);
        if (!word.empty()) {
            return std::string(program) + " " + std::string(word) + " " + std::string(effect.text);
        }
    }
    return {};
}

std::string effect_of_segment(const Words& words) {
    std::size_t at = 0;
    while (at < words.size() && (is_assignment(words[at]) || is_one_of(words[at], keywords))) ++at;
    if (at == words.size()) return {};
    std::string effect = effect_of(base_name(words[at]), words);
    if (!effect.empty() || !is_one_of(base_name(words[at]), runners)) return effect;
    for (++at; at < words.size() && effect.empty(); ++at)
        effect = effect_of(base_name(words[at]), words);
    return effect;
}

/// Splits at blanks, and into segments at which another command may begin. Ignores quotes.
std::string effect_of_any_segment(std::string_view command) {
    Words words;
    std::string word;
    std::string effect;
    const auto end_word = [&] {
        if (!word.empty()) words.push_back(std::move(word));
        word.clear();
    };
    for (const char c : command) {
        if (c == ' ' || c == '\t') {
            end_word();
        } else if (std::string_view(";&|\n\r(){}`!").find(c) != std::string_view::npos) {
            end_word();
            effect = effect_of_segment(words);
            if (!effect.empty()) return effect;
            words.clear();
        } else if (c != '\\') {
            word += c;
        }
    }
    end_word();
    return effect_of_segment(words);
}

}  // namespace

std::string known_effect(std::string_view command) {
    // Once with quotes as separators (bash -c "rm x") and once without them (r'm' x).
    std::string spaced(command);
    std::string joined;
    for (char& c : spaced) {
        if (c == '\'' || c == '"')
            c = ';';
        else
            joined += c;
    }
    std::string effect = effect_of_any_segment(spaced);
    return effect.empty() ? effect_of_any_segment(joined) : effect;
}

}  // namespace cubepi::detail
