package io.seiner;

import java.io.File;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.Directories;
import org.apache.cassandra.db.compaction.AbstractCompactionStrategy;
import org.apache.cassandra.db.compaction.AbstractCompactionTask;
import org.apache.cassandra.db.compaction.CompactionController;
import org.apache.cassandra.db.compaction.CompactionTask;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.db.lifecycle.LifecycleTransaction;
import org.apache.cassandra.exceptions.ConfigurationException;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.io.sstable.metadata.StatsMetadata;
import org.apache.cassandra.schema.CompactionParams;

/**
 * Compaction for tables whose rows are written once, have unique keys, and die by age.
 *
 * <p>SSTables are never merged:
 *
 * <ol>
 *   <li>An SSTable whose rows have all expired is dropped unread.
 *   <li>Otherwise, when the file system is filled to {@code merge_from}, the SSTable with the largest dead share is
 *       rewritten alone, unless it dies whole soon ({@link Policy}).
 * </ol>
 *
 * <p>Only {@code nodetool compact --user-defined} merges the SSTables that it names.
 */
public class FishermanCompaction extends AbstractCompactionStrategy {
    /** Option: fill of the file system from which SSTables are rewritten, at least 0 and below 1. */
    static final String MERGE_FROM = "merge_from";

    private static final double DEFAULT_MERGE_FROM = 0.8;
    /**
     * Age of an SSTable before it is rewritten, in seconds. Without it, an SSTable whose dead rows cannot be removed
     * yet would be rewritten at once, again and again. The option {@code tombstone_compaction_interval} replaces it.
     */
    private static final long REST = 600;
    /** Attempts to reserve SSTables that other tasks reserve at the same time. */
    private static final int ATTEMPTS = 3;

    private final Set<SSTableReader> sstables = new HashSet<>();
    private final Policy policy;
    private final long rest;
    private volatile int remaining;

    public FishermanCompaction(ColumnFamilyStore cfs, Map<String, String> options) {
        super(cfs, options);
        String mergeFrom = options.get(MERGE_FROM);
        policy = new Policy(mergeFrom == null ? DEFAULT_MERGE_FROM : Double.parseDouble(mergeFrom));
        rest = options.containsKey(TOMBSTONE_COMPACTION_INTERVAL_OPTION) ? tombstoneCompactionInterval : REST;
    }

    /** Removes the options of this strategy from a copy of all options. */
    public static Map<String, String> validateOptions(Map<String, String> options) throws ConfigurationException {
        Map<String, String> unknown = AbstractCompactionStrategy.validateOptions(options);
        String text = unknown.remove(MERGE_FROM);
        if (text != null && !isFill(text)) {
            throw new ConfigurationException(MERGE_FROM + " is a number from 0 to below 1, not " + text);
        }
        unknown.remove(CompactionParams.Option.MIN_THRESHOLD.toString());
        unknown.remove(CompactionParams.Option.MAX_THRESHOLD.toString());
        return unknown;
    }

    private static boolean isFill(String text) {
        try {
            double fill = Double.parseDouble(text);
            return fill >= 0 && fill < 1;
        } catch (NumberFormatException error) {
            return false;
        }
    }

    @Override
    public synchronized AbstractCompactionTask getNextBackgroundTask(long gcBefore) {
        for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
            List<SSTableReader> files = idle();
            Collection<SSTableReader> expired = expired(files, gcBefore);
            remaining = expired.isEmpty() ? 0 : 1;
            if (!expired.isEmpty()) {
                AbstractCompactionTask task = task(expired, gcBefore);
                if (task == null) continue;
                expired.forEach(file -> policy.take(1));
                return task;
            }
            SSTableReader file = policy.choose(rewritable(files, gcBefore), one -> deadShare(one, gcBefore), fill());
            if (file == null) return null;
            remaining = 1;
            AbstractCompactionTask task = task(List.of(file), gcBefore);
            if (task == null) continue;
            policy.take(deadShare(file, gcBefore));
            return task;
        }
        return null;
    }

    /** Returns tasks for {@code nodetool compact}: drops what is dead, and rewrites each SSTable with dead rows alone. */
    @Override
    public synchronized Collection<AbstractCompactionTask> getMaximalTask(long gcBefore, boolean splitOutput) {
        List<SSTableReader> files = idle();
        Collection<SSTableReader> expired = expired(files, gcBefore);
        List<AbstractCompactionTask> tasks = new ArrayList<>();
        if (!expired.isEmpty()) addTask(tasks, expired, gcBefore);
        for (SSTableReader file : files) {
            if (!expired.contains(file) && deadShare(file, gcBefore) > 0) addTask(tasks, List.of(file), gcBefore);
        }
        return tasks.isEmpty() ? null : tasks;
    }

    /** Returns a task that merges the SSTables that a user names, or null if another task has reserved one. */
    @Override
    public AbstractCompactionTask getUserDefinedTask(Collection<SSTableReader> files, long gcBefore) {
        AbstractCompactionTask task = task(files, gcBefore);
        return task == null ? null : task.setUserDefined(true);
    }

    private void addTask(List<AbstractCompactionTask> tasks, Collection<SSTableReader> files, long gcBefore) {
        AbstractCompactionTask task = task(files, gcBefore);
        if (task != null) tasks.add(task);
    }

    /** Reserves SSTables for a task. Returns null if another task has reserved one of them. */
    private AbstractCompactionTask task(Collection<SSTableReader> files, long gcBefore) {
        LifecycleTransaction transaction = cfs.getTracker().tryModify(files, OperationType.COMPACTION);
        return transaction == null ? null : new CompactionTask(cfs, transaction, gcBefore);
    }

    /** Returns the SSTables that no task has reserved, without damaged ones. */
    private List<SSTableReader> idle() {
        List<SSTableReader> files = new ArrayList<>();
        for (SSTableReader file : cfs.getUncompactingSSTables()) {
            if (sstables.contains(file)) files.add(file);
        }
        return filterSuspectSSTables(files);
    }

    /** Returns the SSTables whose rows have all expired, and hide no rows of others. */
    private Collection<SSTableReader> expired(List<SSTableReader> files, long gcBefore) {
        List<SSTableReader> dead = files.stream()
                .filter(file -> file.getMaxLocalDeletionTime() < gcBefore)
                .collect(Collectors.toList());
        if (dead.isEmpty()) return Collections.emptySet();
        return CompactionController.getFullyExpiredSSTables(
                cfs, dead, cfs.getOverlappingLiveSSTables(dead), gcBefore);
    }

    /** Returns the SSTables that have rested since they were written, and do not die whole soon. */
    private List<SSTableReader> rewritable(List<SSTableReader> files, long gcBefore) {
        long rested = System.currentTimeMillis() - TimeUnit.SECONDS.toMillis(rest);
        return files.stream()
                .filter(file -> file.getDataCreationTime() <= rested)
                .filter(file -> !Policy.diesSoon(file.getMaxLocalDeletionTime() - gcBefore, file.getMaxTTL()))
                .collect(Collectors.toList());
    }

    private static double deadShare(SSTableReader file, long gcBefore) {
        StatsMetadata stats = file.getSSTableMetadata();
        long[] mortal = {0};
        stats.estimatedTombstoneDropTime.forEach((time, entries) -> mortal[0] += entries);
        double cells = (double) stats.estimatedCellPerPartitionCount.mean() * stats.estimatedCellPerPartitionCount.count();
        return Policy.deadShare(stats.getDroppableTombstonesBefore(gcBefore), mortal[0], cells);
    }

    /** Returns the fill of the fullest file system of the table. */
    private double fill() {
        double fill = 0;
        for (Directories.DataDirectory directory : getDirectories().getWriteableLocations()) {
            File folder = directory.location.toJavaIOFile();
            double total = folder.getTotalSpace();
            if (total > 0) fill = Math.max(fill, 1 - folder.getUsableSpace() / total);
        }
        return fill;
    }

    /** Returns one group per SSTable, so that a repair merges none. */
    @Override
    public Collection<Collection<SSTableReader>> groupSSTablesForAntiCompaction(Collection<SSTableReader> files) {
        return files.stream().map(Collections::singletonList).collect(Collectors.toList());
    }

    @Override
    public synchronized void addSSTable(SSTableReader file) {
        sstables.add(file);
    }

    @Override
    public synchronized void removeSSTable(SSTableReader file) {
        sstables.remove(file);
    }

    @Override
    protected synchronized Set<SSTableReader> getSSTables() {
        return Set.copyOf(sstables);
    }

    @Override
    public int getEstimatedRemainingTasks() {
        return remaining;
    }

    @Override
    public long getMaxSSTableBytes() {
        return Long.MAX_VALUE;
    }
}
