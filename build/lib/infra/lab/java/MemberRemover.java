import java.util.Arrays;
import java.util.Collections;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;

/**
 * An administrator puts members out of a group: static ones by their instance ids, or all there are.
 *
 * <pre>java MemberRemover host:port group [instance-id …]</pre>
 */
public final class MemberRemover {
    private MemberRemover() {}

    public static void main(String[] arguments) throws Exception {
        Set<MemberToRemove> members =
            Arrays.stream(arguments).skip(2).map(MemberToRemove::new).collect(Collectors.toSet());
        RemoveMembersFromConsumerGroupOptions options =
            members.isEmpty() ? new RemoveMembersFromConsumerGroupOptions() : new RemoveMembersFromConsumerGroupOptions(members);
        try (Admin admin = Admin.create(Collections.singletonMap("bootstrap.servers", arguments[0]))) {
            admin.removeMembersFromConsumerGroup(arguments[1], options).all().get();
        }
    }
}
