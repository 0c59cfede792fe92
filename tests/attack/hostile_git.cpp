#include <initializer_list>
#include <string>
#include <string_view>

#include "hostile_commands.hpp"

namespace cubepi::attack {

namespace {

void add(Texts& all, std::string_view before, std::initializer_list<const char*> tails) {
    for (const char* tail : tails) all.push_back(std::string(before) + tail);
}

}  // namespace

/// git: options that run, write, or read outside; also abbreviated, which git accepts.
void add_git_attacks(Texts& all) {
    for (const char* command : {"git diff", "git log", "git show"}) {
        add(all, command,
            {" --output=x", " --output x", " --outpu=x", " --ou x", " --ext-diff", " --ext-dif",
             " --textconv", " -Oorder", " -O order", " --no-index /etc/passwd a", " --no-ind a b",
             " /etc/passwd /dev/null", " ../secret ../other", " --src-prefix=x", " -- -x",
             " --stdin", " --config-env=a=b", " --submodule=log"});
    }
    add(all, "git log",
        {" --show-signature", " --show-sig", " --format=%G?", " --format=%GG", " --pretty=%G?",
         " --format='%(trailers:key=x)'", " --format=%", " -L :f:x", " --mailmap"});
    add(all, "git status",
        {" --column", " --git-dir=x", " --ignore-submodules", " --no-optional", " -x", " --shor"});
    for (const char* setting :
         {"core.fsmonitor=./x", "core.pager=./x", "core.sshCommand=./x", "core.hooksPath=.",
          "core.editor=./x", "diff.external=./x", "alias.status='!./x'", "gpg.program=./x",
          "core.worktree=/", "credential.helper='!x'"}) {
        for (const char* command : {"status", "diff", "log", "show HEAD"})
            all.push_back(std::string("git -c ") + setting + " " + command);
    }
    add(all, "git ",
        {"-C /tmp/evil status", "-C sub status", "--git-dir=evil status", "--git-dir evil log",
         "--work-tree=/ status", "--exec-path=. status", "--exec-path . log", "-p log",
         "--paginate log", "--config-env=core.pager=X log", "--namespace=x status", "--bare status",
         "--super-prefix=x status"});
    for (const char* variable :
         {"GIT_SSH_COMMAND=./x", "GIT_EXTERNAL_DIFF=./x", "GIT_PAGER=./x", "PAGER=./x",
          "GIT_DIR=evil", "GIT_CONFIG_COUNT=1", "GIT_EXEC_PATH=.", "PATH=.", "LD_PRELOAD=./x.so",
          "GIT_EDITOR=./x", "GIT_PROXY_COMMAND=./x", "HOME=."}) {
        for (const char* command : {" git status", " git log", " ls"})
            all.push_back(variable + std::string(command));
    }
    add(all, "git ",
        {"bisect run ./x",
         "bisect start HEAD HEAD~3 -- x",
         "rebase -x ./x HEAD~2",
         "rebase --exec=./x HEAD",
         "rebase --exe ./x HEAD",
         "rebase -i HEAD~2",
         "reset --hard",
         "reset --har",
         "reset --h HEAD",
         "reset --ha",
         "reset --merge",
         "reset --mer",
         "stash",
         "stash drop",
         "stash clear",
         "stash list -p x",
         "branch -D main",
         "branch -d main",
         "branch --del main",
         "branch --delete main",
         "branch -m a b",
         "branch -f main HEAD~9",
         "branch new",
         "branch --edit-description",
         "branch -u x",
         "tag -d v1",
         "tag v2",
         "tag -f v1",
         "tag -s v2",
         "tag -e -a v3",
         "push",
         "push --force",
         "push -f",
         "clean -fdx",
         "checkout -- .",
         "checkout -f",
         "restore .",
         "switch -f x",
         "switch --discard-changes x",
         "rm -r .",
         "gc --prune=now",
         "reflog expire --all",
         "update-ref -d HEAD",
         "filter-branch --tree-filter ./x HEAD",
         "config core.pager ./x",
         "config --global alias.st '!./x'",
         "config -e",
         "commit --amend -m x",
         "commit -e -m x",
         "commit --no-verify -m x",
         "fetch --upload-pack=./x origin",
         "fetch --up ./x origin",
         "fetch ext::./x",
         "fetch --refmap=x origin",
         "pull",
         "clone --upload-pack=./x a b",
         "clone -c core.pager=x a b",
         "clone -u ./x a b",
         "grep -O./x TODO",
         "grep --open-files-in-pager=./x x",
         "grep --open=./x TODO",
         "grep -nO./x TODO",
         "submodule foreach ./x",
         "submodule update --init",
         "archive --exec=./x HEAD",
         "archive --remote=ext::./x HEAD",
         "archive -o x HEAD",
         "apply --unsafe-paths x",
         "am x",
         "difftool -x ./x",
         "difftool --extcmd=./x",
         "mergetool",
         "send-email x",
         "notes edit",
         "worktree add x",
         "worktree remove x",
         "hook run post-checkout",
         "maintenance run",
         "daemon",
         "instaweb",
         "p4 sync",
         "svn fetch",
         "cvsserver",
         "var GIT_EDITOR",
         "help status",
         "help -w status",
         "rev-parse --parseopt",
         "rev-parse --resolve-git-dir /x",
         "rev-parse --pars",
         "blame --contents=/etc/passwd x",
         "blame --cont /etc/passwd x",
         "blame -S /etc/passwd x",
         "ls-files -X /etc/passwd",
         "ls-files --exclude-from=/etc/passwd",
         "ls-files --exclude-f=/x",
         "describe --dirty",
         "describe --broken",
         "evil",
         "st",
         "upload-pack .",
         "receive-pack .",
         "shell",
         "x-y"});
}

}  // namespace cubepi::attack
