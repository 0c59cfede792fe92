#include <cubepi/agent/claim_owner.hpp>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cubepi {
namespace {

TEST(ClaimOwner, D50_names_this_process_the_same_at_every_call) {
    const ClaimOwner owner = current_process_owner();
    EXPECT_EQ(owner.pid, getpid());
    EXPECT_FALSE(owner.owner_id.empty());
    EXPECT_GT(owner.process_start, 0);
    EXPECT_EQ(owner.owner_id, current_process_owner().owner_id);
    EXPECT_NE(owner.description.find(std::to_string(getpid())), std::string::npos);
}

TEST(ClaimOwner, D50_a_running_process_is_not_dead) {
    EXPECT_FALSE(is_dead_owner(current_process_owner()));
    ClaimOwner init = current_process_owner();
    init.pid = 1;
    EXPECT_TRUE(is_dead_owner(init)) << "another process has the id now, with another start";
}

TEST(ClaimOwner, D50_a_process_before_the_last_boot_is_dead) {
    ClaimOwner owner = current_process_owner();
    owner.boot_id = "another boot";
    EXPECT_TRUE(is_dead_owner(owner));
}

TEST(ClaimOwner, D50_nothing_is_known_of_other_hosts) {
    ClaimOwner owner = current_process_owner();
    owner.host = "another host";
    owner.pid = 0x7ffffff0;
    EXPECT_FALSE(is_dead_owner(owner));
    EXPECT_FALSE(is_dead_owner(ClaimOwner()));
}

TEST(ClaimOwner, D50_a_child_is_another_owner_and_dead_as_soon_as_it_ends) {
    const ClaimOwner parent = current_process_owner();
    const pid_t child = fork();
    if (child == 0) _exit(current_process_owner().owner_id != parent.owner_id ? 0 : 1);
    siginfo_t info{};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
    EXPECT_EQ(info.si_status, 0);
    ClaimOwner owner = parent;
    owner.pid = child;
    EXPECT_TRUE(is_dead_owner(owner)) << "a zombie writes no more";
    waitpid(child, nullptr, 0);
    EXPECT_TRUE(is_dead_owner(owner));
}

}  // namespace
}  // namespace cubepi
