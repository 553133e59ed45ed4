import java.util.Map;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Configurable;

/** The range assignor of a leader that needs its time: {@code lab.assign.delay.ms} between the join phase and its SyncGroup. */
public final class SlowRangeAssignor extends RangeAssignor implements Configurable {
    private long delayMs = 0;

    @Override
    public void configure(Map<String, ?> settings) {
        delayMs = Long.parseLong(String.valueOf(settings.get("lab.assign.delay.ms")));
    }

    @Override
    public GroupAssignment assign(Cluster cluster, GroupSubscription subscriptions) {
        try {
            // Not for itself alone, or its own first join would take so long, too.
            if (subscriptions.groupSubscription().size() > 2) Thread.sleep(delayMs);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        return super.assign(cluster, subscriptions);
    }
}
