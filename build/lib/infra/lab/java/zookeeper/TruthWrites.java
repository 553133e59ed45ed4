import java.io.File;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.jute.Record;
import org.apache.zookeeper.ZooDefs.OpCode;
import org.apache.zookeeper.server.ByteBufferInputStream;
import org.apache.zookeeper.server.persistence.FileTxnLog;
import org.apache.zookeeper.server.persistence.TxnLog.TxnIterator;
import org.apache.zookeeper.txn.CreateTxn;
import org.apache.zookeeper.txn.DeleteTxn;
import org.apache.zookeeper.txn.MultiTxn;
import org.apache.zookeeper.txn.SetDataTxn;
import org.apache.zookeeper.txn.Txn;

/**
 * Every write to the znodes below /brokers/topics that ZooKeeper's own transaction log holds, in its order: lines of
 * time, path and data (none: deleted), with tabs between them. Kafka writes JSON without tabs or line ends.
 *
 * <pre>java -cp 'jars of Kafka 2.7.2/*' TruthWrites.java data/zookeeper/version-2</pre>
 */
public final class TruthWrites {
    public static void main(String[] arguments) throws Exception {
        TxnIterator log = new FileTxnLog(new File(arguments[0])).read(0);
        do {
            if (log.getHeader() != null) told(log.getHeader().getTime(), log.getTxn());
        } while (log.next());
        log.close();
    }

    private static void told(long atMs, Record written) throws Exception {
        if (written instanceof CreateTxn) line(atMs, ((CreateTxn) written).getPath(), ((CreateTxn) written).getData());
        if (written instanceof SetDataTxn) line(atMs, ((SetDataTxn) written).getPath(), ((SetDataTxn) written).getData());
        if (written instanceof DeleteTxn) line(atMs, ((DeleteTxn) written).getPath(), null);
        if (written instanceof MultiTxn)
            for (Txn each : ((MultiTxn) written).getTxns()) {
                Record record = empty(each.getType());
                if (record == null) continue;
                ByteBufferInputStream.byteBuffer2Record(ByteBuffer.wrap(each.getData()), record);
                told(atMs, record);
            }
    }

    private static Record empty(int type) {
        switch (type) {
            case OpCode.create: return new CreateTxn();
            case OpCode.setData: return new SetDataTxn();
            case OpCode.delete: return new DeleteTxn();
            default: return null;
        }
    }

    private static void line(long atMs, String path, byte[] data) {
        if (!path.startsWith("/brokers/topics/")) return;
        String text = data == null ? "" : new String(data, StandardCharsets.UTF_8);
        System.out.println(atMs + "\t" + path + "\t" + text);
    }
}
