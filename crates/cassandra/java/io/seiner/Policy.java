package io.seiner;

import java.util.Collection;
import java.util.function.ToDoubleFunction;

/**
 * Decides which file is rewritten, as the fisherman of the paper <i>Riak</i> does. Has no access to Cassandra.
 *
 * <p>Terms: U is the fill of the file system, Um the fill from which files are rewritten, H the hunger, D the dead
 * share of a file, and Dm the least dead share that is rewritten.
 */
final class Policy {
    /** Weight of the latest taken file in the average dead share. */
    private static final double WEIGHT = 0.1;
    /** Files are left alone in the last part of their life, one in this number: they die whole soon. */
    private static final long PARTS_OF_LIFE = 25;

    private final double mergeFrom;
    private double averageDeadShare;
    private long taken;

    /** Creates a policy that rewrites files from a fill of {@code mergeFrom}, at least 0 and below 1. */
    Policy(double mergeFrom) {
        this.mergeFrom = mergeFrom;
    }

    /** Returns H = (U − Um) / (1 − Um), and 0 below Um. */
    double hunger(double fill) {
        return Math.min(1, Math.max(0, (fill - mergeFrom) / (1 - mergeFrom)));
    }

    /** Returns Dm = min(1 − H, average of the dead shares taken so far). */
    double leastDeadShare(double hunger) {
        return taken == 0 ? 1 - hunger : Math.min(1 - hunger, averageDeadShare);
    }

    /** Counts a file that is rewritten, or dropped with a dead share of 1. */
    void take(double deadShare) {
        double weight = taken == 0 ? 1 : WEIGHT;
        averageDeadShare += weight * (deadShare - averageDeadShare);
        taken++;
    }

    /** Returns the file with the largest dead share, or null if nothing is to be rewritten at this fill. */
    <T> T choose(Collection<T> files, ToDoubleFunction<T> deadShare, double fill) {
        double hunger = hunger(fill);
        if (hunger == 0) return null;
        T best = null;
        double largest = 0;
        for (T file : files) {
            double share = deadShare.applyAsDouble(file);
            if (share > largest) {
                best = file;
                largest = share;
            }
        }
        return largest >= leastDeadShare(hunger) ? best : null;
    }

    /**
     * Returns the dead share of a file.
     *
     * @param dead entries that have expired: rows, and their cells
     * @param mortal entries that expire at any time
     * @param cells all cells, an estimate
     */
    static double deadShare(double dead, double mortal, double cells) {
        double all = Math.max(mortal, cells);
        return all > 0 ? Math.min(1, Math.max(0, dead / all)) : 0;
    }

    /**
     * Returns true if a file dies whole within the last twenty-fifth of its life.
     *
     * @param seconds time until the last row of the file may be removed
     * @param life longest life of a row of the file, in seconds; 0 if no row expires
     */
    static boolean diesSoon(long seconds, long life) {
        return life > 0 && seconds <= Math.max(1, life / PARTS_OF_LIFE);
    }
}
