package io.seiner;

import java.util.List;

/** Tests of the policy, without a framework: {@code java -ea io.seiner.PolicyTest}. */
final class PolicyTest {
    private PolicyTest() {}

    public static void main(String[] arguments) {
        boolean enabled = false;
        assert enabled = true;
        if (!enabled) throw new IllegalStateException("run the tests with java -ea");
        hungerGrowsFromTheMergeFill();
        nothingIsRewrittenWithoutHunger();
        theLargestDeadShareIsTaken();
        theAverageLimitsAPatientFisherman();
        aHungryFishermanTakesAnyDeadShare();
        deadSharesStayBetweenZeroAndOne();
        filesThatDieSoonAreLeftAlone();
        System.out.println("7 tests of the policy passed");
    }

    private static void hungerGrowsFromTheMergeFill() {
        Policy policy = new Policy(0.8);
        assert policy.hunger(0) == 0 && policy.hunger(0.8) == 0;
        assertNear(policy.hunger(0.9), 0.5);
        assertNear(policy.hunger(1), 1);
        assertNear(policy.hunger(1.1), 1);
    }

    private static void nothingIsRewrittenWithoutHunger() {
        assert choose(new Policy(0.8), 0.8, 0.99, 1.0) == null;
        assert choose(new Policy(0.8), 0.9) == null;
    }

    private static void theLargestDeadShareIsTaken() {
        assert choose(new Policy(0.8), 0.9, 0.4, 0.7, 0.6) == 0.7;
        // H = 0.5, so Dm = 0.5.
        assert choose(new Policy(0.8), 0.9, 0.4, 0.49) == null;
        assert choose(new Policy(0.8), 0.9, 0.5) == 0.5;
    }

    private static void theAverageLimitsAPatientFisherman() {
        Policy policy = new Policy(0.8);
        policy.take(1);
        assertNear(policy.leastDeadShare(0.1), 0.9);
        for (int file = 0; file < 100; file++) policy.take(0.6);
        // The average is close to 0.6, and lower than 1 − H.
        assertNear(Math.round(policy.leastDeadShare(0.1) * 1000) / 1000.0, 0.6);
        assert choose(policy, 0.82, 0.61) == 0.61;
        assert choose(policy, 0.82, 0.59) == null;
    }

    private static void aHungryFishermanTakesAnyDeadShare() {
        assertNear(new Policy(0.8).leastDeadShare(1), 0);
        assert choose(new Policy(0.8), 1.0, 0.01) == 0.01;
        // Rewriting a file without dead rows frees nothing.
        assert choose(new Policy(0.8), 1.0, 0.0) == null;
    }

    private static void deadSharesStayBetweenZeroAndOne() {
        // A row that expires counts twice: the row, and its cell.
        assertNear(Policy.deadShare(50, 200, 100), 0.25);
        assertNear(Policy.deadShare(50, 50, 100), 0.5);
        assertNear(Policy.deadShare(300, 200, 100), 1);
        assertNear(Policy.deadShare(0, 0, 0), 0);
    }

    private static void filesThatDieSoonAreLeftAlone() {
        long day = 86_400;
        assert Policy.diesSoon(day, 25 * day) && !Policy.diesSoon(day + 1, 25 * day);
        assert Policy.diesSoon(-1, 60) && Policy.diesSoon(2, 60) && !Policy.diesSoon(3, 60);
        assert !Policy.diesSoon(1, 0);
    }

    private static Double choose(Policy policy, double fill, Double... shares) {
        return policy.choose(List.of(shares), share -> share, fill);
    }

    private static void assertNear(double found, double expected) {
        assert Math.abs(found - expected) < 1e-9 : found + ", not " + expected;
    }
}
